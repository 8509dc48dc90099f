"""Shared by the cases: paths, objects, requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.localkube.conformance.transcript import MERGE, Reply, Step

NS = "/api/v1/namespaces/$ns"
CM, PODS, SVC = f"{NS}/configmaps", f"{NS}/pods", f"{NS}/services"
JOBS = "/apis/kubeflow.org/v1/namespaces/$ns/tfjobs"


def cm(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def pod(name: str = "a", spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"containers": [container], **(spec or {})},
    }


def job(name: str = "a", version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def answered(code: int) -> Callable[[Reply], bool]:
    return lambda reply: reply.status == code


def get(path: str, **more: Any) -> Step:
    return Step("GET", path, **more)


def post(path: str, body: Any, **more: Any) -> Step:
    return Step("POST", path, body, **more)


def put(path: str, body: Any) -> Step:
    return Step("PUT", path, body)


def patch(path: str, body: Any, how: str = MERGE, **more: Any) -> Step:
    return Step("PATCH", path, body, how, **more)


def delete(path: str, body: Any = None) -> Step:
    return Step("DELETE", path, body)
