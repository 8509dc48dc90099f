"""Finalizers and the ways objects go."""

from __future__ import annotations

from tests.conformance.cases.requests import CM, JOBS, cm, delete, get, job, patch, post
from tests.conformance.transcript import Case

CASES = [
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
        "a policy nobody knows", [post(CM, cm()), delete(f"{CM}/a", {"propagationPolicy": "Never"})]
    ),
]
