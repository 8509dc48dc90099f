"""Watches: start, selection, end."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    PODS,
    cm,
    delete,
    get,
    job,
    patch,
    pod,
    post,
)
from tests.localkube.conformance.transcript import Case, Step

INITIAL = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

CASES = [
    Case(
        "values of the watch parameter",
        [
            get(f"{CM}?watch=maybe&timeoutSeconds=1"),
            get(f"{CM}?watch=&timeoutSeconds=1"),
            get(f"{CM}?watch=False"),
            get(f"{CM}?watch=0"),
        ],
    ),
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
        "a watch that begins with existing objects",
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
    Case(
        "a watch resumed from the last event",
        [
            post(CM, cm("a")),
            patch(f"{CM}/a", {"data": {"x": "1"}}),
            patch(f"{CM}/a", {"data": {"x": "2"}}),
            get(f"{CM}?watch=1&resourceVersion=$rv.1&timeoutSeconds=1"),
            get(f"{CM}?watch=1&resourceVersion=$rv.2&timeoutSeconds=1"),
            get(f"{CM}/a?watch=1&resourceVersion=$rv.0&timeoutSeconds=1"),
            get("/api/v1/watch/namespaces/$ns/configmaps?resourceVersion=$rv.0&timeoutSeconds=1"),
        ],
    ),
    Case(
        "the bookmark after existing objects",
        [
            post(CM, cm("a")),
            get(f"{CM}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true"),
            get(f"{JOBS}?watch=1&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true"),
            get(f"{CM}?watch=1&timeoutSeconds=1{INITIAL}".replace("&allowWatchBookmarks=true", "")),
        ],
    ),
    Case(
        "initial events and bookmarks",
        [
            post(PODS, pod("a", labels={"x": "1"})),
            post(PODS, pod("b")),
            get(f"{PODS}?watch=1&timeoutSeconds=1&labelSelector=x%3D1{INITIAL}"),
            get(f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=0{INITIAL}"),
            get(f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=$rv.1{INITIAL}"),
            get(
                f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=$rv.0&sendInitialEvents=false"
                "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            ),
            get(f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            get(f"{PODS}?watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan"),
            get(f"{PODS}?watch=1&timeoutSeconds=1&resourceVersionMatch=Exact"),
        ],
        ("wording", "zero-values"),
    ),
    Case(
        "a pod that leaves a field selector",
        [
            post(PODS, pod("a")),
            patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}),
            patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}),
            get(
                f"{PODS}?watch=1&resourceVersion=$rv.0&timeoutSeconds=1"
                "&fieldSelector=status.phase%3DRunning"
            ),
            get(
                f"{PODS}?watch=1&resourceVersion=$rv.0&timeoutSeconds=1"
                "&fieldSelector=status.phase!%3DSucceeded"
            ),
        ],
    ),
    Case(
        "invalid watches",
        [
            get(f"{CM}?watch=1&labelSelector=a%3D%3D%3Db"),
            get(f"{PODS}?watch=1&fieldSelector=spec.foo%3Dx"),
            get(f"{CM}?watch=1&timeoutSeconds=x"),
        ],
        ("wording",),
    ),
    Case(
        "a watch as tables and as metadata",
        [
            post(CM, cm("a", data={"k": "v"})),
            Step("GET", f"{CM}?watch=1&timeoutSeconds=1&resourceVersion=0", accept=PARTIAL),
        ],
    ),
]
