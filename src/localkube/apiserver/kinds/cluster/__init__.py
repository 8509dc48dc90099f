"""The cluster itself: nodes, namespaces, leases, events."""
