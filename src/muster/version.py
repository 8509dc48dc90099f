"""The version of the package. Modules import it from here: `muster` itself leads to the API."""

__version__ = "0.1.0"

LOCAL_CLUSTER_VERSION = "v1.36.0+muster"
"""The version of the local cluster's API server and nodes: that of the Kubernetes it follows."""
