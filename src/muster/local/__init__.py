"""The local cluster: a Kubernetes API, a node and a few workload controllers on one machine.

Reading order: home (where its state lives), up (everything wired into one process), then
apiserver/, node/ and workloads/. Nothing outside this package knows whether a cluster is local.
"""
