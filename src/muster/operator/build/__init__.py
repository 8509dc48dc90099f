"""Manifests of the objects that a job owns. Pure.

Reading order: labels (owner reference, labels, role and index of a pod), host_ports (choosing ports
on the host's network), addresses (host names, ports and services of replicas), pods, dialect_choice
(how a job's gang is declared), gang (the group object and the marks on pods).
"""
