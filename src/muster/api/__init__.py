"""Kubernetes objects as frozen structs of the fields that Muster reads. No I/O.

Reading order: meta (metadata, keys, conditions), core (Pod, Node and others), affinity, storage,
gang, pod_groups and gang_dialects (the ways to declare a gang), events, quantity,
selectors, kinds (which resource path is read as which struct), crds and schemas (the files that
come with the package).
"""
