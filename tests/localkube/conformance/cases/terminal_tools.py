"""Requests of k9s and tools like it: tables and metadata that are watched, pages."""

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

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
METADATA = (
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,"
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
)
SECOND = "watch=true&timeoutSeconds=1"
PRINTED = ("column-descriptions", "zero-values")


def table(path: str) -> Step:
    return get(path, accept=TABLE)


def metadata(path: str) -> Step:
    return get(path, accept=METADATA)


CASES = [
    Case(
        "a table that is listed and then watched",
        [
            post(PODS, pod("a", labels={"x": "1"})),
            table(f"{PODS}?limit=500&resourceVersion=0"),
            patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}),
            patch(f"{PODS}/a", {"metadata": {"labels": {"x": "2"}}}),
            table(f"{PODS}?{SECOND}&resourceVersion=$rv.0&labelSelector=x%3D1"),
            table(f"{PODS}?{SECOND}&resourceVersion=$rv.0&includeObject=Object"),
            table(f"{PODS}?{SECOND}&resourceVersion=$rv.0&includeObject=None"),
            table(f"{PODS}?includeObject=Metadata&labelSelector=x%3D1"),
        ],
        PRINTED,
    ),
    Case(
        "a table of custom objects that is watched",
        [
            post(JOBS, job("a")),
            table(f"{JOBS}?includeObject=Object"),
            patch(f"{JOBS}/a", {"metadata": {"labels": {"x": "1"}}}),
            table(f"{JOBS}?{SECOND}&resourceVersion=$rv.0"),
            table(f"{JOBS}/a"),
        ],
        PRINTED,
    ),
    Case(
        "tables of an error and of nothing",
        [
            table(f"{PODS}/none"),
            table(PODS),
            table(f"{PODS}?includeObject=Everything"),
            table(f"{PODS}?fieldSelector=spec.foo%3Dx"),
        ],
        (*PRINTED, "wording"),
    ),
    Case(
        "metadata alone, listed in pages and watched",
        [
            post(CM, cm("a", data={"k": "v"})),
            post(CM, cm("b", data={"k": "v"})),
            metadata(f"{CM}?limit=1&fieldSelector=metadata.name!%3Dkube-root-ca.crt"),
            metadata(
                f"{CM}?limit=1&fieldSelector=metadata.name!%3Dkube-root-ca.crt&continue=$next.2"
            ),
            metadata(f"{CM}/a"),
            patch(f"{CM}/a", {"data": {"k": "w"}}),
            delete(f"{CM}/b"),
            get(f"{CM}?{SECOND}&resourceVersion=$rv.1", accept=METADATA.partition(",")[2]),
        ],
        ("wording",),
    ),
    Case(
        "pages that are watched from their version on",
        [
            post(CM, cm("a")),
            post(CM, cm("b")),
            post(CM, cm("c")),
            get(f"{CM}?limit=2&labelSelector=!none"),
            get(f"{CM}?limit=2&labelSelector=!none&continue=$next.3"),
            patch(f"{CM}/c", {"data": {"k": "v"}}),
            get(f"{CM}?{SECOND}&resourceVersion=$rv.3&allowWatchBookmarks=true"),
            get(f"{CM}?limit=2&continue=nonsense"),
            get(f"{CM}?resourceVersion=$rv.0&resourceVersionMatch=NotOlderThan"),
            get(f"{CM}?resourceVersion=$rv.2&resourceVersionMatch=Exact&limit=1"),
        ],
        ("wording",),
    ),
]
