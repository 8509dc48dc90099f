"""Pods: binding, deletion in grace, what may not change, what is defaulted."""

from __future__ import annotations

from tests.conformance.cases.requests import PODS, delete, get, patch, pod, post
from tests.conformance.transcript import STRATEGIC, Case

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
        "a binding of another pod's uid",
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
        "finished pods go at once",
        [
            post(PODS, pod("a", {"nodeName": "n"})),
            patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "a pod cannot be changed much",
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
        "priority classes",
        [
            post(PODS, pod("a", {"priorityClassName": "none-such"})),
            post(PODS, pod("b", {"priorityClassName": "system-node-critical"})),
            post(PODS, pod("c", {"priority": 5})),
        ],
    ),
]
