"""Two writers, one object."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import CM, JOBS, cm, delete, job, patch, post, put
from tests.localkube.conformance.transcript import Case

CASES = [
    Case("a name that is in use", [post(CM, cm()), post(CM, cm())]),
    Case(
        "a stale revision",
        [
            post(CM, cm()),
            patch(f"{CM}/a", {"data": {"x": "y"}}),
            put(f"{CM}/a", {**cm(), "metadata": {"name": "a", "resourceVersion": "$rv.0"}}),
            patch(f"{CM}/a", {"metadata": {"resourceVersion": "$rv.0"}, "data": {"x": "z"}}),
            delete(f"{CM}/a", {"preconditions": {"resourceVersion": "$rv.0"}}),
        ],
    ),
    Case(
        "the uid of another object",
        [
            post(CM, cm()),
            post(CM, cm("b")),
            put(f"{CM}/a", {**cm(), "metadata": {"name": "a", "uid": "$uid.1"}}),
            delete(f"{CM}/a", {"preconditions": {"uid": "$uid.1"}}),
            delete(f"{CM}/a", {"preconditions": {"uid": "$uid.0"}}),
        ],
    ),
    Case(
        "a job updated without a revision",
        [post(JOBS, job()), put(f"{JOBS}/a", job(x=1))],
    ),
]
