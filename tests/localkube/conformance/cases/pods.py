"""Pods: binding, graceful deletion, immutable fields, defaults."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import PODS, delete, get, patch, pod, post
from tests.localkube.conformance.transcript import STRATEGIC, Case

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
FIRST = {"name": "first", "image": "a:1"}
BESIDE = {"name": "beside", "image": "a:1", "restartPolicy": "Always"}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}
UP = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def state(name: str, restarts: int, now: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "image": "a:1",
        "imageID": "",
        "restartCount": restarts,
        "ready": now is UP,
        "started": now is UP,
        "state": now or {"waiting": {"reason": "PodInitializing"}},
    }


CASES = [
    Case(
        "a binding",
        [
            post(PODS, pod(annotations={"old": "1"})),
            post(
                f"{PODS}/a/binding",
                {
                    "metadata": {
                        "name": "a",
                        "uid": "$uid.0",
                        "annotations": {"muster.dev/plan": "x/1"},
                    },
                    "target": {"kind": "Node", "name": "n1"},
                },
            ),
            get(f"{PODS}/a"),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n2"}},
            ),
        ],
    ),
    Case(
        "a binding with the uid of another pod",
        [
            post(PODS, pod("a")),
            post(PODS, pod("b")),
            post(
                f"{PODS}/a/binding",
                {
                    "metadata": {"name": "a", "uid": "$uid.1"},
                    "target": {"kind": "Node", "name": "n"},
                },
            ),
            post(
                f"{PODS}/none/binding",
                {"metadata": {"name": "none"}, "target": {"kind": "Node", "name": "n"}},
            ),
        ],
    ),
    Case(
        "a bound pod is marked, then removed by its node",
        [
            post(PODS, pod("a", {"nodeName": "n", "terminationGracePeriodSeconds": 60})),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
            delete(f"{PODS}/a", {"gracePeriodSeconds": 10}),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
            ),
            delete(f"{PODS}/a?gracePeriodSeconds=0"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "finished pods are removed at once",
        [
            post(PODS, pod("a", {"nodeName": "n"})),
            patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "immutable fields of a pod",
        [
            post(PODS, pod()),
            patch(f"{PODS}/a", {"spec": {"nodeName": "x"}}),
            patch(f"{PODS}/a", {"spec": {"schedulerName": "x"}}),
            patch(
                f"{PODS}/a",
                {"spec": {"containers": [{"name": "main", "image": "other"}]}},
                STRATEGIC,
            ),
        ],
        differs=("wording",),
    ),
    Case(
        "pods with everything defaulted",
        [
            post(
                PODS,
                pod(
                    "a",
                    {
                        "containers": [
                            {
                                "name": "c",
                                "image": "x:latest",
                                "ports": [{"containerPort": 1}],
                                "env": [
                                    {
                                        "name": "N",
                                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                                    }
                                ],
                                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                            }
                        ],
                        "volumes": [{"name": "v", "configMap": {"name": "m"}}, {"name": "e"}],
                        "restartPolicy": "Never",
                        "hostNetwork": False,
                    },
                ),
            ),
            post(
                PODS,
                pod(
                    "b",
                    {
                        "hostNetwork": True,
                        "containers": [
                            {
                                "name": "c",
                                "image": "x@sha256:" + "a" * 64,
                                "ports": [{"containerPort": 1}],
                                "resources": {"requests": {"cpu": "500m"}},
                            }
                        ],
                    },
                ),
            ),
            post(PODS, pod("c", {"tolerations": [{"operator": "Exists"}]})),
        ],
    ),
    Case(
        "pods with init containers and sidecars as a table",
        [
            post(PODS, pod("a", {"initContainers": [FIRST, BESIDE]})),
            *(
                step
                for status in (
                    {"initContainerStatuses": [state("first", 3, FAILED), state("beside", 0)]},
                    {"initContainerStatuses": [state("first", 3, DONE), state("beside", 0)]},
                    {"initContainerStatuses": [state("first", 3, DONE), state("beside", 2, UP)]},
                    {
                        "initContainerStatuses": [state("first", 3, DONE), state("beside", 2, UP)],
                        "containerStatuses": [state("main", 4, UP)],
                        "conditions": [{"type": "Initialized", "status": "True"}],
                    },
                )
                for step in (
                    patch(f"{PODS}/a/status", {"status": status}),
                    get(f"{PODS}/a", accept=TABLE),
                )
            ),
        ],
        ("column-descriptions", "zero-values"),
    ),
    Case(
        "priority classes",
        [
            post(PODS, pod("a", {"priorityClassName": "none-such"})),
            post(PODS, pod("b", {"priorityClassName": "system-node-critical"})),
            post(PODS, pod("c", {"priority": 5})),
        ],
    ),
]
