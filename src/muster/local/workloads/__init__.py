"""The built-in controllers that users of training jobs need, one small control loop each.

Reading order: discover (which kinds the API has), ownership (who belongs to whom, pure), garbage
(collection by owner).
"""
