"""Discovery: the kinds that a cluster serves."""

from __future__ import annotations

import json

from kubekit.client import discovery

PODS = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list", "delete"]}
LOGS = {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": ["get"]}
REVIEWS = {"name": "tokenreviews", "kind": "TokenReview", "verbs": ["create"]}


def test_the_core_group_comes_first_and_every_group_in_the_version_it_prefers() -> None:
    groups = [{"name": "apps", "preferredVersion": {"groupVersion": "apps/v1"}}]

    assert discovery.preferred_versions(json.dumps({"groups": groups}).encode()) == [
        "v1",
        "apps/v1",
    ]


def test_the_core_group_has_a_root_of_its_own() -> None:
    assert discovery.resources_request("v1").path == "/api/v1"
    assert discovery.resources_request("kubeflow.org/v1").path == "/apis/kubeflow.org/v1"


def test_subresources_are_not_kinds() -> None:
    body = json.dumps({"resources": [PODS, LOGS, REVIEWS]}).encode()

    kinds = discovery.kinds(body, "example.com/v2", dict)

    assert [(kind.resource, kind.version, kind.namespaced) for kind in kinds] == [
        ("pods.example.com", "v2", True),
        ("tokenreviews.example.com", "v2", False),
    ]


def test_only_kinds_with_the_needed_verbs_are_listed() -> None:
    body = json.dumps({"resources": [PODS, REVIEWS]}).encode()

    kinds = discovery.kinds(body, "v1", dict, verbs=("list", "delete"))

    assert [kind.kind for kind in kinds] == ["Pod"]
