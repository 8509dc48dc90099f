"""Nodes that go away, and their pods.

Reading order: standing (a node's conditions and taints, pure), heartbeats (who is silent),
eviction (who may stay on a tainted node, pure), evictions (its controller), lost (pods of nodes
that are no more).
"""
