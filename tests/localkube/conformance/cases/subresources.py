"""Status, scale, binding, eviction, finalize."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import PODS, SVC, delete, get, patch, pod, post, put
from tests.localkube.conformance.transcript import JSON_PATCH, STRATEGIC, Case

DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
SETS = "/apis/apps/v1/namespaces/$ns/replicasets"
STATEFUL_SETS = "/apis/apps/v1/namespaces/$ns/statefulsets"
DAEMON_SETS = "/apis/apps/v1/namespaces/$ns/daemonsets"
BUDGETS = "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets"
LABELS = {"a": "b"}


def workload(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": pod()["spec"]}
    return {
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


def scale(replicas: Any, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", "namespace": "$ns", **meta},
        "spec": {"replicas": replicas},
    }


def eviction(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


SCALE = [
    Case(
        f"the scale of {path.rpartition('/')[2]}",
        [
            post(path, workload(replicas=2)),
            get(f"{path}/a/scale"),
            put(f"{path}/a/scale", scale(3)),
            put(f"{path}/a/scale", scale(4, resourceVersion="$rv.0")),
            patch(f"{path}/a/scale", {"spec": {"replicas": 5}}),
            patch(
                f"{path}/a/scale",
                [{"op": "replace", "path": "/spec/replicas", "value": 0}],
                JSON_PATCH,
            ),
            get(f"{path}/a/scale"),
            put(f"{path}/a/scale", scale(-1)),
            get(f"{path}/a"),
            get(f"{path}/none/scale"),
            put(f"{path}/none/scale", scale(1)),
            delete(f"{path}/a/scale"),
        ],
        ("wording",),
    )
    for path in (DEPLOYMENTS, SETS)
]

STATUS = [
    Case(
        "the status of a deployment",
        [
            post(DEPLOYMENTS, {**workload(), "status": {"replicas": 3}}),
            put(f"{DEPLOYMENTS}/a/status", {**workload(replicas=7), "status": {"replicas": 2}}),
            patch(f"{DEPLOYMENTS}/a/status", {"status": {"readyReplicas": 1}}),
            patch(f"{DEPLOYMENTS}/a", {"status": {"replicas": 9}}),
            patch(
                f"{DEPLOYMENTS}/a/status",
                {"status": {"conditions": [{"type": "Available", "status": "True"}]}},
                STRATEGIC,
            ),
            get(f"{DEPLOYMENTS}/a"),
            put(f"{DEPLOYMENTS}/none/status", {**workload(), "metadata": {"name": "none"}}),
        ],
    ),
    Case(
        "the status of a pod",
        [
            post(PODS, pod()),
            patch(f"{PODS}/a/status", {"status": {"phase": "Running", "podIP": "10.0.0.1"}}),
            patch(f"{PODS}/a/status", {"spec": {"nodeName": "x"}, "metadata": {"labels": LABELS}}),
            put(f"{PODS}/a/status", {**pod(), "status": {"phase": "Failed", "reason": "R"}}),
            patch(f"{PODS}/none/status", {"status": {}}),
        ],
        ("zero-values",),
    ),
    *(
        Case(
            f"labels and annotations written with the status of {path.rpartition('/')[2]}",
            [
                post(path, body),
                patch(
                    f"{path}/a/status",
                    {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}},
                ),
                patch(f"{path}/a", {"metadata": {"annotations": {"z": "y"}}}),
            ],
        )
        for path, body in {
            DEPLOYMENTS: workload(),
            SETS: workload(),
            STATEFUL_SETS: workload(serviceName="s"),
            DAEMON_SETS: workload(),
            PODS: pod(),
            SVC: {"metadata": {"name": "a"}, "spec": {"clusterIP": "None"}},
            BUDGETS: {"metadata": {"name": "a"}, "spec": {"minAvailable": 1}},
        }.items()
    ),
    Case(
        "a field of a feature that is off",
        [
            post(
                STATEFUL_SETS,
                workload(
                    serviceName="s",
                    updateStrategy={
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": 2},
                    },
                ),
            ),
        ],
        ("managed-fields",),
    ),
    Case(
        "the status of a node",
        [
            post("/api/v1/nodes", {"metadata": {"name": "$ns"}}),
            patch("/api/v1/nodes/$ns/status", {"status": {"capacity": {"cpu": "4"}}}),
            patch(
                "/api/v1/nodes/$ns/status",
                {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
                STRATEGIC,
            ),
            patch("/api/v1/nodes/$ns", {"spec": {"unschedulable": True}}),
            delete("/api/v1/nodes/$ns"),
        ],
        ("zero-values",),
    ),
]

EVICTION = [
    Case(
        "evictions",
        [
            post(PODS, pod("a", {"nodeName": "n"}, labels=LABELS)),
            post(f"{PODS}/a/eviction?dryRun=All", eviction()),
            get(f"{PODS}/a"),
            post(f"{PODS}/a/eviction", eviction(deleteOptions={"gracePeriodSeconds": 5})),
            get(f"{PODS}/a"),
            post(f"{PODS}/a/eviction", eviction(deleteOptions={"gracePeriodSeconds": 0})),
            get(f"{PODS}/a"),
            post(f"{PODS}/a/eviction", eviction()),
            get(f"{PODS}/a/eviction"),
        ],
    ),
    Case(
        "an eviction with the uid of another pod",
        [
            post(PODS, pod("a")),
            post(PODS, pod("b")),
            post(
                f"{PODS}/a/eviction",
                eviction(deleteOptions={"preconditions": {"uid": "$uid.1"}}),
            ),
            get(f"{PODS}/a"),
            post(f"{PODS}/a/eviction", eviction("b")),
        ],
        ("wording",),
    ),
]


def budget(name: str = "b", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}


def counted(allowed: int, generation: int = 1, **more: Any) -> dict[str, Any]:
    """The part of a budget that its controller writes; in this suite, neither server has one."""
    numbers = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    return {
        "status": {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            **numbers,
            **more,
        }
    }


def running(ready: bool) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"status": {"phase": "Running", "conditions": [condition]}}


NOT_SYNCED = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "SyncFailed",
    "message": "found no controllers",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
PROTECTED = [
    post(PODS, pod("a", {"nodeName": "n"}, labels=LABELS)),
    patch(f"{PODS}/a/status", running(ready=True)),
    post(BUDGETS, budget(minAvailable=1)),
]
BUDGETED = [
    Case(
        "evictions that a budget allows and refuses",
        [
            *PROTECTED,
            post(PODS, pod("c", {"nodeName": "n"}, labels=LABELS)),
            patch(f"{PODS}/c/status", running(ready=True)),
            post(f"{PODS}/a/eviction", eviction()),  # the status is not written yet
            patch(f"{BUDGETS}/b/status", counted(1)),
            post(f"{PODS}/a/eviction?dryRun=All", eviction()),
            get(f"{BUDGETS}/b"),
            post(f"{PODS}/a/eviction", eviction()),
            post(f"{PODS}/c/eviction", eviction("c")),
            patch(f"{BUDGETS}/b", {"spec": {"minAvailable": 0}}),
            post(f"{PODS}/c/eviction", eviction("c")),
            patch(f"{BUDGETS}/b/status", counted(0, 2, conditions=[NOT_SYNCED])),
            post(f"{PODS}/c/eviction", eviction("c")),
            delete(f"{BUDGETS}/b"),
            post(f"{PODS}/c/eviction", eviction("c")),
        ],
    ),
    Case(
        "evictions of pods that are not ready",
        [
            *PROTECTED,
            patch(f"{PODS}/a/status", running(ready=False)),
            patch(f"{BUDGETS}/b/status", counted(0, currentHealthy=0)),
            post(f"{PODS}/a/eviction?dryRun=All", eviction()),
            patch(f"{BUDGETS}/b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
            post(f"{PODS}/a/eviction?dryRun=All", eviction()),
            patch(f"{BUDGETS}/b", {"spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}}),
            patch(f"{BUDGETS}/b/status", counted(0, 3, currentHealthy=1)),
            post(f"{PODS}/a/eviction", eviction()),
        ],
    ),
    Case(
        "an eviction with two budgets",
        [
            *PROTECTED,
            post(BUDGETS, budget("c", maxUnavailable=1)),
            post(f"{PODS}/a/eviction", eviction()),
        ],
    ),
]

FINALIZE = [
    Case(
        "a namespace's finalizers",
        [
            post("/api/v1/namespaces", {"metadata": {"name": "$ns-x"}}),
            delete("/api/v1/namespaces/$ns-x"),
            post("/api/v1/namespaces/$ns-x/configmaps", {"metadata": {"name": "a"}}),
            delete("/api/v1/namespaces/$ns-x"),
            put("/api/v1/namespaces/$ns-x", {"metadata": {"name": "$ns-x"}}),
            patch("/api/v1/namespaces/$ns-x", {"spec": {"finalizers": None}}),
            put("/api/v1/namespaces/$ns-x/finalize", {"metadata": {"name": "$ns-x"}, "spec": {}}),
            get("/api/v1/namespaces/$ns-x"),
        ],
    ),
]

BINDING = [
    Case(
        "invalid bindings",
        [
            post(PODS, pod()),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}},
            ),
            get(f"{PODS}/a/binding"),
            post(
                f"{PODS}/a/binding?dryRun=All",
                {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
            ),
            get(f"{PODS}/a"),
        ],
        ("wording",),
    ),
    Case(
        "a gated pod",
        [
            post(PODS, pod("a", {"schedulingGates": [{"name": "x.io/wait"}]})),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
            ),
            patch(f"{PODS}/a", {"spec": {"schedulingGates": None}}),
            get(f"{PODS}/a"),
        ],
        ("wording",),
    ),
]

CASES = [*SCALE, *STATUS, *EVICTION, *BUDGETED, *FINALIZE, *BINDING]
