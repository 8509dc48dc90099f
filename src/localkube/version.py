"""The version that the API server and the nodes report: that of the Kubernetes they follow."""

KUBERNETES_VERSION = "v1.36.0+localkube"
