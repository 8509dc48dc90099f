"""Objects in a line each, as clients send and servers return them.

What only one room has is beside its tests: pods of gangs, of jobs, and of a node.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw


def pod(
    name: str = "p",
    *containers: Raw,
    meta: Raw | None = None,
    status: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A pod of one plain container if none is given."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"containers": list(containers) or [container()], **spec},
        **({"status": status} if status else {}),
    }


def read_pod(name: str = "p", *containers: Raw, **fields: Any) -> Pod:
    """The same pod as a program reads it."""
    return msgspec.convert(pod(name, *containers, **fields), Pod)


def container(name: str = "main", **fields: Any) -> Raw:
    return {"name": name, "image": "busybox:1", **fields}


def config_map(name: str, namespace: str = "", **data: str) -> Raw:
    where = {"namespace": namespace} if namespace else {}
    meta = {"name": name, **where}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
