"""A Kubernetes on one machine: an API server, the usual controllers, and pods as processes.

Start reading at `cluster`. `apiserver`, `controllers` and `node` meet only at the API, except that
the server calls the node as kube-apiserver calls the kubelet (`node_interface`).
"""

KUBERNETES_VERSION = "v1.36.0+localkube"
"""The version that the API server and the nodes report: that of the Kubernetes they follow."""
