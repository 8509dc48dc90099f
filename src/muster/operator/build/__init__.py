"""Manifests of the objects that a job owns. Pure.

Reading order: labels (owner reference, labels, role and index of a pod), addresses (host names and
ports of replicas), host_ports (choosing ports on the host's network), services, pods,
dialect_choice (how a job's gang is declared), gang (the group object and the marks on pods).
"""
