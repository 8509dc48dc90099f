"""The controller of a job is chosen once: managedBy neither changes nor comes nor goes."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import JOBS, get, job, patch, post, put
from tests.localkube.conformance.transcript import JSON_PATCH, Case

OURS, OTHER = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"


def changed(name: str, before: dict[str, Any], *changes: Any) -> Case:
    """A job with this spec, and merge patches of its spec."""
    path = f"{JOBS}/a"
    steps = [post(JOBS, job(**before)), *(patch(path, {"spec": change}) for change in changes)]
    return Case(f"managedBy: {name}", [*steps, get(path)])


MPIJOBS = "/apis/kubeflow.org/v2beta1/namespaces/$ns/mpijobs"
MPIJOB = job(version="v2beta1", runPolicy={"managedBy": OTHER}) | {"kind": "MPIJob"}

CASES = [
    changed("changed", {"runPolicy": {"managedBy": OTHER}}, {"runPolicy": {"managedBy": OURS}}),
    changed("added", {"runPolicy": {"suspend": True}}, {"runPolicy": {"managedBy": OTHER}}),
    changed("added with its policy", {}, {"runPolicy": {"managedBy": OTHER}}),
    changed("removed", {"runPolicy": {"managedBy": OTHER}}, {"runPolicy": {"managedBy": None}}),
    changed("removed with its policy", {"runPolicy": {"managedBy": OTHER}}, {"runPolicy": None}),
    changed("directly under spec", {"managedBy": OTHER}, {"managedBy": OURS}, {"managedBy": None}),
    changed(
        "both places at once",
        {"managedBy": OTHER, "runPolicy": {"managedBy": OTHER}},
        {"managedBy": OURS, "runPolicy": {"managedBy": OURS}},
    ),
    changed(
        "other fields may change",
        {"runPolicy": {"managedBy": OTHER, "suspend": True}},
        {"runPolicy": {"suspend": False}},
        {"runPolicy": {"managedBy": OTHER, "backoffLimit": 2}},
    ),
    changed("empty is as absent", {"runPolicy": {"managedBy": ""}}, {"runPolicy": None}),
    Case(
        "managedBy: replaced and patched as JSON",
        [
            post(JOBS, job(runPolicy={"managedBy": OTHER})),
            put(f"{JOBS}/a", job(runPolicy={"managedBy": OURS})),
            put(f"{JOBS}/a", job(runPolicy={})),
            patch(f"{JOBS}/a", [{"op": "remove", "path": "/spec/runPolicy"}], JSON_PATCH),
            put(f"{JOBS}/a", job(runPolicy={"managedBy": OTHER, "suspend": True})),
        ],
    ),
    Case(
        "managedBy: null",
        [
            post(JOBS, job(runPolicy={"managedBy": None})),
            put(f"{JOBS}/a", job(runPolicy={"managedBy": None, "suspend": True})),
            put(f"{JOBS}/a", job(runPolicy={})),
            put(f"{JOBS}/a", job(runPolicy={"managedBy": OTHER})),
        ],
    ),
    Case(
        "managedBy: of an MPIJob of v2beta1",
        [
            post(MPIJOBS, MPIJOB),
            patch(f"{MPIJOBS}/a", {"spec": {"runPolicy": {"managedBy": OURS}}}),
            patch(f"{MPIJOBS}/a", {"spec": {"runPolicy": {"suspend": True}}}),
        ],
    ),
]
