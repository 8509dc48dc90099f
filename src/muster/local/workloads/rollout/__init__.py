"""Replica sets and deployments: how many pods of which template.

Reading order: replicaset (how many pods, pure), sets (its controller), revision (templates and
their numbers, pure), proportion (how many replicas in which set, pure), progress (a deployment's
status, pure), deployment (what to do next, pure), deployments (its controller).
"""
