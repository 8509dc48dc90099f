"""Bodies that name another object than their path, or none, or another kind."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.server_side_apply import DEPLOYMENTS, ONE, apply, deployment
from tests.localkube.conformance.cases.steps import CM, JOBS, NS, PODS, cm, get, job, pod, post, put
from tests.localkube.conformance.transcript import Case

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles"
SCALE = f"{DEPLOYMENTS}/a/scale"
ONCE = {"replicas": 1}
NAMELESS: tuple[dict[str, Any], ...] = (
    {"metadata": {}},
    {},
    {"metadata": None},
    {"metadata": {"name": ""}},
    {"metadata": {"generateName": "a"}},
    {"metadata": {"name": 5}},
    {"metadata": "a"},
    {"metadata": True},
    {"metadata": []},
)


def nameless(kind: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind}


CASES = [
    Case(
        "replacements without a name",
        [
            post(CM, cm(data={"k": "v"})),
            *(put(f"{CM}/a", {**body, "data": {"x": "y"}}) for body in NAMELESS),
            *(put(f"{CM}/none", {**body, "data": {"x": "y"}}) for body in NAMELESS),
            get(f"{CM}/a"),
            put(f"{ROLES}/a", {"metadata": {}, "rules": []}),
            put(f"{ROLES}/a", {"metadata": {"name": "b"}, "rules": []}),
            get(f"{ROLES}/a"),
            post(JOBS, job()),
            put(f"{JOBS}/a", {**job(), "metadata": {}}),
            put(f"{JOBS}/a/status", {**job(), "metadata": {}}),
            post(PODS, pod()),
            put(f"{PODS}/a/status", {"metadata": {}, "status": {}}),
            put(f"{NS}/finalize", {"metadata": {}, "spec": {}}),
            put(NS, {"metadata": {}}),
            get(NS),
        ],
        ("wording",),
    ),
    Case(
        "new objects without a name",
        [post(CM, body) for body in NAMELESS if body != {"metadata": {"generateName": "a"}}],
        ("wording",),
    ),
    Case(
        "scales of another name, or of none",
        [
            post(DEPLOYMENTS, deployment(ONE)),
            *(put(SCALE, {**body, "spec": ONCE}) for body in NAMELESS),
            put(SCALE, {"metadata": {"name": "b"}, "spec": ONCE}),
            put(SCALE, {"metadata": {"name": "a", "namespace": "x"}, "spec": ONCE}),
            put(SCALE, {"kind": "Pod", "metadata": {"name": "a"}, "spec": ONCE}),
            put(SCALE, {"apiVersion": "v1", "metadata": {"name": "a"}, "spec": ONCE}),
            put(SCALE, {"metadata": {"name": "a"}, "spec": []}),
            put(SCALE, {"metadata": {"name": "a"}, "spec": ONCE}),
        ],
        ("wording",),
    ),
    Case(
        "bindings and evictions of another name, or of none",
        [
            post(PODS, pod()),
            *(post(f"{PODS}/a/binding", {**body, "target": {"name": "n"}}) for body in NAMELESS),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "a", "namespace": "x"}, "target": {"name": "n"}},
            ),
            post(
                f"{PODS}/a/binding",
                {"kind": "Pod", "metadata": {"name": "a"}, "target": {"name": "n"}},
            ),
            post(
                f"{PODS}/a/binding",
                {"apiVersion": "v2", "metadata": {"name": "a"}, "target": {"name": "n"}},
            ),
            *(post(f"{PODS}/a/eviction", body) for body in NAMELESS),
            post(f"{PODS}/a/eviction", {"metadata": {"name": "a", "namespace": "x"}}),
            post(f"{PODS}/a/eviction", {"kind": "Pod", "metadata": {"name": "a"}}),
            post(f"{PODS}/a/eviction", {"apiVersion": "policy/v2", "metadata": {"name": "a"}}),
            get(f"{PODS}/a"),
            post(
                f"{PODS}/a/eviction",
                {"kind": "Eviction", "apiVersion": "policy/v1beta1", "metadata": {"name": "a"}},
            ),
        ],
        ("wording",),
    ),
    Case(
        "applies without a name, and of a deleted object",
        [
            apply(f"{CM}/x", nameless("ConfigMap")),
            apply(f"{CM}/x", {**nameless("ConfigMap"), "metadata": {}}),
            apply(f"{CM}/x", {**nameless("ConfigMap"), "metadata": {"name": "x", "uid": "abc"}}),
            get(f"{CM}/x"),
            apply(f"{CM}/x", cm("x")),
            apply(f"{CM}/x", nameless("ConfigMap")),
            apply(f"{CM}/x", {**cm("x"), "metadata": {"name": "x", "uid": "abc"}}),
            apply(f"{JOBS}/x", {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}),
            apply(f"{JOBS}/x", {**job("x"), "metadata": {"uid": "abc"}}),
            get(f"{JOBS}/x"),
        ],
        ("wording",),
    ),
]
