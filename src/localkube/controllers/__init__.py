"""The built-in controllers that users of training jobs need, one small control loop each.

On a real cluster kube-controller-manager runs them. Start reading at `run`, which combines them.
"""
