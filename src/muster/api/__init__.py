"""What Kubernetes objects look like: frozen structs of the fields we read, and no I/O.

Reading order: meta (metadata, keys, conditions), core (Pod, Node and friends), gangs (the dialects'
group objects), events, quantity, selectors, kinds (the table that joins a resource path to a
struct).
"""
