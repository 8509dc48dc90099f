"""Server-side apply by one owner: creating, changing, and invalid applies."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    NS,
    PODS,
    SVC,
    cm,
    get,
    job,
    patch,
    pod,
    post,
)
from tests.localkube.conformance.transcript import Case, Step

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


def service(*ports: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": list(ports)},
    }


def env(*names: str, value: str) -> dict[str, Any]:
    return {**ONE, "env": [{"name": name, "value": value} for name in names]}


def replicas(count: int, name: str = "a") -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name},
        "spec": {"replicas": count},
    }


UDP = {"name": "u", "port": 53, "protocol": "UDP"}
TCP = {"name": "t", "port": 53, "protocol": "TCP"}
BOTH = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]
NAMED = [{"containerPort": 80, "protocol": "UDP", "name": "u"}, {"containerPort": 80, "name": "t"}]

LISTS = [
    Case(
        "applies of items with several keys",
        [
            apply(f"{SVC}/a", service(UDP, TCP)),
            apply(f"{SVC}/a", service(UDP, TCP)),
            apply(f"{SVC}/a", service(TCP, {"name": "x", "port": 80}, UDP)),
            apply(f"{SVC}/a", service(TCP, {"name": "y", "port": 80}, UDP)),
            apply(f"{SVC}/a", service({"name": "z"})),
            apply(f"{DEPLOYMENTS}/a", deployment({**ONE, "ports": BOTH})),
            apply(f"{DEPLOYMENTS}/a", deployment({**ONE, "ports": NAMED})),
            get(f"{DEPLOYMENTS}/a"),
        ],
        ("wording", "causes"),
    ),
    Case(
        "applies to lists of another owner",
        [
            post(DEPLOYMENTS, deployment(env(*"ABCDE", value="1"))),
            apply(f"{DEPLOYMENTS}/a", deployment(env(*"DNB", value="2")), force="true"),
            apply(f"{DEPLOYMENTS}/a", deployment(env(*"DNBO", value="2"), TWO), force="true"),
            apply(f"{DEPLOYMENTS}/a", deployment(TWO, env(*"BODN", value="3")), force="true"),
            get(f"{DEPLOYMENTS}/a"),
            post(CM, {**cm(), "metadata": {"name": "a", "finalizers": ["x/a", "x/b", "x/c"]}}),
            apply(f"{CM}/a", {**cm(), "metadata": {"name": "a", "finalizers": ["x/d", "x/b"]}}),
            patch(f"{CM}/a", {"metadata": {"finalizers": None}}),
        ],
    ),
    Case(
        "applies of atomic fields",
        [
            post(DEPLOYMENTS, deployment({**ONE, "args": ["a", "b"], "command": ["c"]})),
            apply(f"{DEPLOYMENTS}/a", deployment({**ONE, "args": ["d"]}), force="true"),
            post(f"{NS}/services", service(TCP)),
            apply(
                f"{SVC}/a",
                {**service(TCP), "spec": {"selector": {"c": "d"}}},
                force="true",
            ),
            post(JOBS, job(list=[1, 2], map={"a": 1})),
            apply(f"{JOBS}/a", job(list=[3], map={"b": 2}), force="true"),
        ],
    ),
    Case(
        "applies of a scale",
        [
            post(DEPLOYMENTS, deployment(ONE, replicas=2)),
            apply(f"{DEPLOYMENTS}/a/scale", replicas(3), force="true"),
            apply(f"{DEPLOYMENTS}/a/scale", replicas(4, "b"), force="true"),
            apply(f"{DEPLOYMENTS}/a/scale", replicas(-1), force="true"),
            apply(f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 4}}, force="true"),
            apply(f"{DEPLOYMENTS}/a/scale", deployment(ONE, replicas=4), force="true"),
            apply(f"{DEPLOYMENTS}/none/scale", replicas(3, "none"), force="true"),
            patch(f"{DEPLOYMENTS}/a/scale", replicas(4), APPLY),
            get(f"{DEPLOYMENTS}/a/scale"),
        ],
        ("wording",),
    ),
]

CASES = [
    *LISTS,
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
        "applies that set managedFields",
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
        "invalid applies",
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
