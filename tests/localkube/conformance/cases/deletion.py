"""Finalizers and propagation policies."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import CM, JOBS, cm, delete, get, job, patch, post, put
from tests.localkube.conformance.transcript import Case

GOING = "/api/v1/namespaces/$ns-x"


def namespace(*finalizers: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "$ns-x", **meta}, "spec": {"finalizers": list(finalizers)}}


NAMESPACES = [
    Case(
        "a namespace that is being deleted",
        [
            post("/api/v1/namespaces", namespace()),
            post(f"{GOING}/configmaps", cm("kept", data={"a": "1"})),
            delete(GOING),
            get(GOING),
            post(f"{GOING}/configmaps", cm()),
            post(f"{GOING}/configmaps", {"metadata": {"generateName": "a-"}}),
            post("/apis/kubeflow.org/v1/namespaces/$ns-x/tfjobs", job()),
            patch(f"{GOING}/configmaps/kept", {"data": {"a": "2"}}),
            patch(GOING, {"metadata": {"labels": {"a": "b"}}}),
            patch(f"{GOING}/status", {"status": {"phase": "Active"}}),
            patch(
                f"{GOING}/status",
                {
                    "status": {
                        "conditions": [
                            {
                                "type": "NamespaceContentRemaining",
                                "status": "True",
                                "reason": "SomeResourcesRemain",
                                "message": "Some resources are remaining: configmaps.",
                            }
                        ]
                    }
                },
            ),
            delete(f"{GOING}/configmaps"),
            post("/api/v1/namespaces", namespace()),
            put(f"{GOING}/finalize", namespace()),
            get(GOING),
            get(f"{GOING}/configmaps"),
        ],
    ),
    Case(
        "finalizers of a namespace",
        [
            post("/api/v1/namespaces", namespace("x.io/a", labels={"a": "b"})),
            put(f"{GOING}/finalize", namespace("kubernetes", "x.io/b")),
            put(f"{GOING}/finalize", namespace("kubernetes", resourceVersion="1")),
            put(f"{GOING}/finalize", namespace("kubernetes", resourceVersion="$rv.1")),
            put(f"{GOING}/finalize", namespace("nonsense")),
            put(f"{GOING}/finalize", {"metadata": {"name": "other"}}),
            put("/api/v1/namespaces/no-such/finalize", {"metadata": {"name": "no-such"}}),
            patch(f"{GOING}/finalize", {"spec": {"finalizers": []}}),
            get(f"{GOING}/finalize"),
            patch(GOING, {"metadata": {"finalizers": ["x.io/meta"]}}),
            delete(GOING),
            put(f"{GOING}/finalize", namespace(finalizers=["x.io/meta"])),
            get(GOING),
            patch(GOING, {"metadata": {"finalizers": None}}),
            get(GOING),
        ],
    ),
    Case(
        "a namespace without finalizers",
        [
            post("/api/v1/namespaces", namespace()),
            put(f"{GOING}/finalize", namespace()),
            delete(GOING),
            get(GOING),
            delete(GOING),
            get(GOING),
        ],
    ),
]

OPTIONS = [
    Case(
        "dry runs of deletions",
        [
            post(CM, cm()),
            delete(f"{CM}/a", {"dryRun": ["All"]}),
            delete(f"{CM}/a?dryRun=All"),
            delete(CM, {"dryRun": ["All"]}),
            delete(f"{CM}?dryRun=All"),
            get(CM),
            delete(f"{CM}/a", {"dryRun": ["Some"]}),
            delete(f"{CM}/a", {"dryRun": ["All", "Some"]}),
            delete(CM, {"dryRun": ["Some"]}),
            delete("/api/v1/namespaces/$ns", {"dryRun": ["All"]}),
            get("/api/v1/namespaces/$ns"),
            get(CM),
        ],
    ),
    Case(
        "invalid options of a deletion",
        [
            post(CM, cm()),
            delete(f"{CM}/a", {"propagationPolicy": "Orphan", "orphanDependents": True}),
            delete(f"{CM}/a", {"gracePeriodSeconds": 2**70}),
            delete(f"{CM}/a", {"gracePeriodSeconds": -1}),
            delete(CM, {"propagationPolicy": "Orphan", "orphanDependents": True}),
        ],
        ("wording",),
    ),
]

CASES = [
    *NAMESPACES,
    *OPTIONS,
    Case(
        "finalizers",
        [
            post(CM, {"metadata": {"name": "a", "finalizers": ["x.io/f"]}}),
            delete(f"{CM}/a"),
            get(f"{CM}/a"),
            delete(f"{CM}/a"),
            patch(f"{CM}/a", {"metadata": {"finalizers": ["x.io/f", "x.io/g"]}}),
            patch(f"{CM}/a", {"metadata": {"finalizers": None}}),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "foreground deletion",
        [
            post(JOBS, job()),
            delete(f"{JOBS}/a", {"propagationPolicy": "Foreground"}),
            patch(f"{JOBS}/a", {"metadata": {"finalizers": []}}),
            get(f"{JOBS}/a"),
        ],
    ),
    Case(
        "a job with a finalizer",
        [
            post(JOBS, {**job(), "metadata": {"name": "a", "finalizers": ["x.io/f"]}}),
            delete(f"{JOBS}/a"),
            patch(f"{JOBS}/a", {"spec": {"x": 1}}),
            patch(f"{JOBS}/a", {"metadata": {"finalizers": []}}),
            get(f"{JOBS}/a"),
        ],
    ),
    Case(
        "an unknown propagation policy",
        [post(CM, cm()), delete(f"{CM}/a", {"propagationPolicy": "Never"})],
    ),
]
