"""Quotas, limit ranges, and the priority classes of pods."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import (
    CM,
    NS,
    PODS,
    SVC,
    answered,
    cm,
    delete,
    get,
    patch,
    pod,
    post,
)
from tests.localkube.conformance.transcript import Case, Reply, Step

QUOTAS = f"{NS}/resourcequotas"
RANGES = f"{NS}/limitranges"
CLAIM = "PersistentVolumeClaim"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def hard(name: str = "q", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def limited(**amounts: str) -> list[Step]:
    """A quota, with its status written as a controller would; no secret, to see that it holds."""
    named = {name.replace("__", "/").replace("_", "."): value for name, value in amounts.items()}
    named["secrets"] = "0"
    status = {"status": {"hard": named, "used": dict.fromkeys(named, "0")}}
    return [
        post(QUOTAS, hard(hard=named)),
        patch(f"{QUOTAS}/q/status", status),
        post(
            f"{NS}/secrets?dryRun=All",
            {"metadata": {"name": "a"}},
            until=lambda reply: "exceeded" in reply.body.get("message", ""),
        ),
    ]


def has_no_class(reply: Reply) -> bool:
    return "priorityClassName" not in reply.body["spec"]


def wanting(name: str, **resources: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources}
    return pod(name, {"containers": [container]})


QUOTA = [
    Case(
        "as many as a quota allows",
        [
            *limited(pods="2", count__configmaps="1", services="0"),
            post(PODS, pod("a")),
            get(f"{QUOTAS}/q"),
            post(PODS, pod("b")),
            post(PODS, pod("c")),
            post(PODS, pod("a")),
            post(f"{PODS}?dryRun=All", pod("c")),
            post(CM, cm("a")),
            post(CM, cm("b")),
            patch(f"{CM}/a", {"data": {"x": "y"}}),
            post(SVC, {"metadata": {"name": "a"}, "spec": {"clusterIP": "None"}}),
            post(f"{NS}/secrets", {"metadata": {"name": "a"}}),
            get(f"{QUOTAS}/q"),
        ],
        ("managed-fields",),
    ),
    Case(
        "as much as a quota allows",
        [
            *limited(
                requests_cpu="1",
                requests_memory="1Gi",
                limits_cpu="2",
                **{"requests.nvidia.com__gpu": "1"},
            ),
            post(PODS, pod("a")),
            post(PODS, wanting("a", requests={"cpu": "500m"}, limits={"memory": "1M"})),
            post(
                PODS, wanting("a", requests={"cpu": "500m", "memory": "512Mi"}, limits={"cpu": "1"})
            ),
            post(
                PODS, wanting("b", requests={"cpu": "600m", "memory": "600Mi"}, limits={"cpu": "1"})
            ),
            post(
                PODS,
                wanting(
                    "b",
                    requests={"cpu": "100m", "memory": "1M"},
                    limits={"cpu": "200m", "nvidia.com/gpu": "2"},
                ),
            ),
            post(PODS, wanting("b", requests={"cpu": "100m", "memory": "1M"}, limits={"cpu": "1"})),
            post(PODS, wanting("c", requests={"cpu": "1", "memory": "1Mi"}, limits={"cpu": "1"})),
            get(f"{QUOTAS}/q"),
        ],
        ("managed-fields",),
    ),
    Case(
        "a job is counted by its kind",
        [
            *limited(**{"count__tfjobs.kubeflow.org": "0"}),
            post(
                "/apis/kubeflow.org/v1/namespaces/$ns/tfjobs",
                {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "TFJob",
                    "metadata": {"name": "a"},
                    "spec": {},
                },
            ),
        ],
        ("managed-fields",),
    ),
]


def ranged(*items: dict[str, Any], name: str = "r") -> Step:
    return post(RANGES, {"metadata": {"name": name}, "spec": {"limits": list(items)}})


LIMITS = [
    Case(
        "a limit range gives containers their defaults",
        [
            ranged(
                {
                    "type": "Container",
                    "default": {"cpu": "500m", "memory": "64Mi"},
                    "defaultRequest": {"cpu": "100m"},
                }
            ),
            get(f"{RANGES}/r"),
            post(PODS, pod("a")),
            post(PODS, wanting("b", limits={"cpu": "2"})),
            post(PODS, wanting("c", requests={"cpu": "50m", "memory": "1Mi"})),
            post(PODS, wanting("d", requests={"cpu": "1"}, limits={"cpu": "1", "memory": "1Gi"})),
            post(
                PODS,
                pod("e", {"initContainers": [{"name": "i", "image": "b"}]}),
            ),
            post(PODS, wanting("f", requests={"cpu": "1"})),
        ],
    ),
    Case(
        "containers outside of a limit range",
        [
            ranged(
                {
                    "type": "Container",
                    "max": {"cpu": "1"},
                    "min": {"cpu": "100m"},
                    "maxLimitRequestRatio": {"cpu": "4"},
                }
            ),
            get(f"{RANGES}/r"),
            post(PODS, pod("a")),
            post(PODS, wanting("b", limits={"cpu": "2"})),
            post(PODS, wanting("b", requests={"cpu": "50m"}, limits={"cpu": "100m"})),
            post(PODS, wanting("b", requests={"cpu": "100m"}, limits={"cpu": "500m"})),
            post(f"{PODS}?dryRun=All", wanting("b", limits={"cpu": "1500m"})),
            post(PODS, wanting("b", requests={"cpu": "250m"})),
        ],
    ),
    Case(
        "pods and claims outside of a limit range",
        [
            ranged(
                {"type": "Pod", "max": {"memory": "1Gi"}},
                {
                    "type": CLAIM,
                    "min": {"storage": "1Gi"},
                    "max": {"storage": "2Gi"},
                },
            ),
            post(PODS, pod("a")),
            post(PODS, wanting("a", limits={"memory": "2Gi"})),
            post(PODS, wanting("a", limits={"memory": "1Gi"})),
            *(
                post(
                    f"{NS}/persistentvolumeclaims",
                    {
                        "metadata": {"name": f"c{size.lower()}"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "",
                            "resources": {"requests": {"storage": size}},
                        },
                    },
                )
                for size in ("500Mi", "2Gi", "3Gi")
            ),
            patch(f"{NS}/persistentvolumeclaims/c2gi/status", {"status": {"phase": "Bound"}}),
            patch(
                f"{NS}/persistentvolumeclaims/c2gi",
                {"spec": {"resources": {"requests": {"storage": "3Gi"}}}},
            ),
        ],
        differs=("volume-protection",),
    ),
    Case(
        "limit ranges that cannot be",
        [
            ranged({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}),
            ranged({"type": "Pod", "default": {"cpu": "2"}}),
            ranged({"type": "Box"}),
            ranged({"type": "Pod", "max": {"cpu": "2"}}, {"type": "Pod", "max": {"cpu": "1"}}),
            ranged({"type": CLAIM}),
            ranged({"type": "Container", "max": {"rockets": "1"}}),
            ranged({"type": CLAIM, "max": {"rockets": "1", "storage": "1"}}),
            ranged({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}),
            ranged(
                {
                    "type": "Container",
                    "min": {"cpu": "1"},
                    "max": {"cpu": "2"},
                    "maxLimitRequestRatio": {"cpu": "4"},
                }
            ),
            ranged({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}),
            ranged({"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "2"}}),
            ranged(
                {
                    "type": "Container",
                    "default": {"nvidia.com/gpu": "2"},
                    "defaultRequest": {"nvidia.com/gpu": "1"},
                }
            ),
            ranged({}),
        ],
        differs=("causes",),
    ),
]

PRIORITY = [
    Case(
        "what a pod may say of its priority",
        [
            post(PODS, pod("a", {"priorityClassName": "none-such"})),
            post(PODS, pod("a", {"priority": 7})),
            post(PODS, pod("a", {"priority": 0})),
            post(PODS, pod("b", {"preemptionPolicy": "Never"})),
            post(PODS, pod("b", {"preemptionPolicy": "PreemptLowerPriority"})),
            post(PODS, pod("c", {"priorityClassName": "system-node-critical"})),
            get(f"{CLASSES}/system-cluster-critical"),
            get(f"{CLASSES}/system-node-critical"),
            delete(f"{CLASSES}/none-such"),
        ],
    ),
    Case(
        "classes that cannot be",
        [
            post(CLASSES, {"metadata": {"name": "system-$ns"}, "value": 5}),
            post(CLASSES, {"metadata": {"name": "big-$ns"}, "value": 1_000_000_001}),
            post(CLASSES, {"metadata": {"name": "p-$ns"}, "value": 5}),
            patch(f"{CLASSES}/p-$ns", {"value": 6}),
            patch(f"{CLASSES}/p-$ns", {"description": "x"}),
            post(PODS, pod("a", {"priorityClassName": "p-$ns"}), until=answered(201)),
            post(PODS, pod("b", {"priorityClassName": "p-$ns", "priority": 6})),
            delete(f"{CLASSES}/p-$ns"),
        ],
    ),
    Case(
        # The real server hears of its classes a little later: a second default would come in then,
        # and the first would still be given to the pods of whoever comes next.
        "the default class",
        [
            post(CLASSES, {"metadata": {"name": "d-$ns"}, "value": 5, "globalDefault": True}),
            post(PODS, pod("a", {"priority": 5}), until=answered(201)),
            post(CLASSES, {"metadata": {"name": "e-$ns"}, "value": 6, "globalDefault": True}),
            delete(f"{CLASSES}/d-$ns"),
            post(f"{PODS}?dryRun=All", pod("b"), until=has_no_class),
        ],
    ),
    Case(
        "tolerations that are there already",
        [
            post(PODS, pod(name, {"tolerations": list(tolerations)}))
            for name, tolerations in (
                ("a", [{"operator": "Exists"}]),
                ("b", [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
                ("c", [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
                (
                    "d",
                    [
                        {
                            "key": "node.kubernetes.io/not-ready",
                            "operator": "Exists",
                            "effect": "NoSchedule",
                        }
                    ],
                ),
                ("e", [{"key": "node.kubernetes.io/unreachable", "value": "x"}]),
            )
        ],
    ),
]

CASES = [*QUOTA, *LIMITS, *PRIORITY]
