"""Watches: from where, of what, until when."""

from __future__ import annotations

from tests.conformance.cases.requests import CM, JOBS, cm, delete, get, job, patch, post
from tests.conformance.transcript import Case

CASES = [
    Case(
        "a watch from a revision",
        [
            post(CM, cm()),
            patch(f"{CM}/a", {"data": {"x": "y"}}),
            delete(f"{CM}/a"),
            get(f"{CM}?watch=1&resourceVersion=$rv.0&timeoutSeconds=1"),
        ],
    ),
    Case(
        "a watch that selects",
        [
            post(CM, {"metadata": {"name": "a"}}),
            patch(f"{CM}/a", {"metadata": {"labels": {"x": "1"}}}),
            patch(f"{CM}/a", {"data": {"k": "v"}}),
            patch(f"{CM}/a", {"metadata": {"labels": {"x": "2"}}}),
            patch(f"{CM}/a", {"metadata": {"labels": {"x": "1"}}}),
            delete(f"{CM}/a"),
            get(f"{CM}?watch=1&resourceVersion=$rv.0&timeoutSeconds=1&labelSelector=x%3D1"),
        ],
    ),
    Case(
        "a watch that begins with what is there",
        [
            post(CM, cm("a")),
            post(CM, cm("b")),
            get(f"{CM}?watch=1&timeoutSeconds=1"),
            get(
                f"{CM}?watch=1&timeoutSeconds=1&sendInitialEvents=true"
                "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            ),
            get(f"{CM}?watch=1&timeoutSeconds=1&sendInitialEvents=true"),
        ],
        differs=("wording",),
    ),
    Case(
        "a watch of one name and of jobs",
        [
            post(JOBS, job("a")),
            post(JOBS, job("b")),
            patch(f"{JOBS}/a", {"spec": {"x": 1}}),
            get(
                f"{JOBS}?watch=1&resourceVersion=$rv.0&timeoutSeconds=1"
                "&fieldSelector=metadata.name%3Da"
            ),
            get(
                f"{JOBS}?watch=1&resourceVersion=$rv.0&timeoutSeconds=1".replace(
                    "/v1/", "/v1beta1/"
                )
            ),
        ],
    ),
]
