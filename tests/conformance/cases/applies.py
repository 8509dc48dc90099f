"""Server-side apply by one owner: creating, changing, and what it refuses."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.requests import CM, JOBS, PODS, cm, get, job, patch, pod, post
from tests.conformance.transcript import Case, Step

APPLY = "application/apply-patch+yaml"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"


def apply(path: str, body: Any, manager: str = "me", **more: Any) -> Step:
    query = "&".join(f"{k}={v}" for k, v in more.items())
    return patch(f"{path}?fieldManager={manager}&{query}".rstrip("&"), body, APPLY)


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"a": "b"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}},
            **spec,
        },
    }


MANAGED = {
    "manager": "me",
    "operation": "Apply",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {}},
}
ONE = {"name": "one", "image": "i:1"}
TWO = {"name": "two", "image": "i:1", "env": [{"name": "A", "value": "1"}]}

CASES = [
    Case(
        "apply creates and merges",
        [
            apply(f"{CM}/a", cm(data={"x": "1"})),
            apply(f"{CM}/a", cm(data={"x": "2", "y": "3"})),
            apply(f"{CM}/a", cm(data={"x": "2", "y": "3"})),
            get(f"{CM}/a"),
            apply(f"{CM}/b", cm("b"), dryRun="All"),
            get(f"{CM}/b"),
        ],
    ),
    Case(
        "apply of a deployment",
        [
            apply(f"{DEPLOYMENTS}/a", deployment(ONE, replicas=2)),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE, TWO, replicas=3)),
            apply(
                f"{DEPLOYMENTS}/a",
                deployment(ONE, {**TWO, "env": [{"name": "A", "value": "2"}]}, replicas=3),
            ),
            get(f"{DEPLOYMENTS}/a"),
        ],
    ),
    Case(
        "apply of pods and jobs",
        [
            apply(f"{PODS}/a", pod()),
            apply(f"{PODS}/a", {**pod(), "metadata": {"name": "a", "labels": {"x": "y"}}}),
            apply(f"{JOBS}/a", job(x={"y": 1})),
            apply(f"{JOBS}/a", job(x={"y": 2, "z": [1]})),
            get(f"{JOBS}/a"),
        ],
    ),
    Case(
        "applies that say who owns what",
        [
            apply(f"{CM}/b", cm("b")),
            apply(f"{CM}/b", {**cm("b"), "metadata": {"name": "b", "managedFields": [MANAGED]}}),
            apply(f"{CM}/b", {**cm("b"), "metadata": {"name": "b", "managedFields": []}}),
            apply(f"{CM}/c", {**cm("c"), "metadata": {"name": "c", "managedFields": [MANAGED]}}),
        ],
        ("wording",),
    ),
    Case(
        "managers with long and odd names",
        [
            apply(f"{CM}/a", cm(), "m" * 128),
            apply(f"{CM}/b", cm("b"), "m" * 129),
            apply(f"{CM}/b", cm("b"), "a%0Ab"),
            post(f"{CM}?fieldManager={'m' * 129}", cm("c")),
            patch(f"{CM}/a?fieldManager={'m' * 129}", {"data": {"a": "b"}}),
        ],
        ("wording",),
    ),
    Case(
        "applies that make no sense",
        [
            patch(f"{CM}/a", cm(), APPLY),
            apply(f"{CM}/a", {"metadata": {"name": "a"}}),
            apply(f"{CM}/a", cm("b")),
            apply(f"{CM}/a", pod()),
            apply("/api/v1/namespaces/none-such/configmaps/a", cm()),
            post(f"{CM}?fieldManager=me", cm()),
            apply(f"{CM}/a", {**cm(), "metadata": {"name": "a", "resourceVersion": "1"}}),
            patch(f"{CM}/a?fieldManager=me&force=true", {"data": {"a": "b"}}),
        ],
        ("wording",),
    ),
]
