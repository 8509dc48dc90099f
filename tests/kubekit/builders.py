"""Objects as clients send and servers return them."""

from __future__ import annotations

from kubekit.objects.meta import Raw


def pod(name: str, namespace: str = "ns", *, uid: str = "", **labels: str) -> Raw:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "labels": labels,
        },
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "terminationGracePeriodSeconds": 0,
        },
        "status": {"phase": "Pending"},
    }
