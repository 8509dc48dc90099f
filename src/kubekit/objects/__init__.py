"""Kubernetes objects as frozen structs of the fields that a program reads. No I/O.

Reading order: meta (metadata, keys, conditions), core (Pod, Node and others), affinity, storage,
events, quantity, selectors, kinds (which resource path is read as which struct).
"""
