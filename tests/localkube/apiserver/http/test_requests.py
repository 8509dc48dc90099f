"""Paths and their routes."""

from __future__ import annotations

import pytest

from localkube.apiserver.http.requests import Route, parse_route


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, Route("list", "", "v1", "pods")),
        ("GET", "/api/v1/pods", {"watch": "true"}, Route("watch", "", "v1", "pods")),
        ("GET", "/api/v1/pods", {"watch": "0"}, Route("list", "", "v1", "pods")),
        ("GET", "/api/v1/namespaces/a/pods", {}, Route("list", "", "v1", "pods", "a")),
        ("GET", "/api/v1/namespaces/a/pods/", {}, Route("list", "", "v1", "pods", "a")),
        ("POST", "/api/v1/namespaces/a/pods", {}, Route("create", "", "v1", "pods", "a")),
        ("PUT", "/api/v1/namespaces/a/pods/b", {}, Route("update", "", "v1", "pods", "a", "b")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/b/binding",
            {},
            Route("create", "", "v1", "pods", "a", "b", "binding"),
        ),
        (
            "GET",
            "/api/v1/namespaces/a/pods/b:80/proxy/x/y",
            {},
            Route("get", "", "v1", "pods", "a", "b:80", "proxy", "x/y"),
        ),
        ("GET", "/api/v1/namespaces", {}, Route("list", "", "v1", "namespaces")),
        ("GET", "/api/v1/namespaces/a", {}, Route("get", "", "v1", "namespaces", "a", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            {},
            Route("update", "", "v1", "namespaces", "a", "a", "finalize"),
        ),
        ("DELETE", "/api/v1/nodes", {}, Route("deletecollection", "", "v1", "nodes")),
        ("PATCH", "/api/v1/nodes/n", {}, Route("patch", "", "v1", "nodes", "", "n")),
        (
            "DELETE",
            "/apis/kubeflow.org/v1/namespaces/a/tfjobs/j",
            {},
            Route("delete", "kubeflow.org", "v1", "tfjobs", "a", "j"),
        ),
        ("GET", "/api/v1/namespaces/a%2Fb/pods", {}, Route("list", "", "v1", "pods", "a/b")),
        ("HEAD", "/api/v1/nodes/n", {}, Route("head", "", "v1", "nodes", "", "n")),
        ("GET", "/", {}, None),
        ("GET", "/api", {}, None),
        ("GET", "/api/v1", {}, None),
        ("GET", "/apis/apps", {}, None),
        ("GET", "/apis/apps/v1", {}, None),
        ("GET", "/version", {}, None),
        ("BREW", "/api/v1/pods", {}, None),
    ],
)
def test_a_path_is_parsed_into_a_route(
    method: str, path: str, query: dict[str, str], expected: Route | None
) -> None:
    assert parse_route(method, path, query) == expected
