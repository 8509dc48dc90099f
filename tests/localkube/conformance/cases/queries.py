"""Unusual paths, revisions and forms of answers."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import CM, JOBS, cm, delete, get, job, patch, post, put
from tests.localkube.conformance.transcript import Case

WATCH = f"{CM}?watch=1&timeoutSeconds=1"
NOT_OLDER = "resourceVersionMatch=NotOlderThan"


def shaped(shape: str, version: str = "v1") -> str:
    return f"application/json;as={shape};v={version};g=meta.k8s.io"


ONE, MANY, TABLE = map(shaped, ("PartialObjectMetadata", "PartialObjectMetadataList", "Table"))
FAR = "99999999"

CASES = [
    Case(
        "watches without existing objects",
        [
            post(CM, cm()),
            get(f"{WATCH}&sendInitialEvents=false&{NOT_OLDER}"),
            get(f"{WATCH}&resourceVersion=0&sendInitialEvents=false&{NOT_OLDER}"),
            get(f"{WATCH}&resourceVersion=0&sendInitialEvents=true&{NOT_OLDER}"),
            post(CM, cm("b")),
            get(f"{WATCH}&resourceVersion=$rv.0&sendInitialEvents=false&{NOT_OLDER}"),
        ],
    ),
    Case(
        "objects and lists of a future revision, or of any",
        [
            post(CM, cm()),
            post(CM, cm("b")),
            get(f"{CM}/a?resourceVersion={FAR}"),
            get(f"{CM}/none?resourceVersion={FAR}"),
            get(f"{CM}/a?resourceVersion=1"),
            get(f"{CM}/a?resourceVersion=0"),
            get(f"{CM}?limit=1&resourceVersion=0"),
            get(f"{CM}?limit=1&resourceVersion=0&{NOT_OLDER}"),
            get(f"{CM}?limit=1&resourceVersion=$rv.1&{NOT_OLDER}"),
            get(f"{CM}?limit=1"),
            get(f"{CM}?limit=5&resourceVersion=$rv.0"),
            get(f"{CM}?resourceVersion=$rv.0"),
            get(f"{CM}?limit=5&resourceVersion={FAR}"),
            post(JOBS, job()),
            post(JOBS, job("b")),
            get(f"{JOBS}?limit=1&resourceVersion=0"),
        ],
        ("wording",),
    ),
    Case(
        "forms that a request cannot have",
        [
            post(CM, cm()),
            get(CM, accept=ONE),
            get(CM, accept=MANY),
            get(CM, accept=f"{ONE},{MANY}"),
            get(CM, accept=f"{ONE},application/json"),
            get(f"{CM}/a", accept=MANY),
            get(f"{CM}/a", accept=ONE),
            get(WATCH, accept=ONE),
            get(WATCH, accept="application/yaml"),
            get(WATCH, accept="application/yaml,application/json"),
            get(CM, accept=shaped("Table", "v2")),
            get(f"{CM}?includeObject=Everything", accept=TABLE),
            get(f"{CM}/a?includeObject=Everything", accept=TABLE),
            get(f"{WATCH}&includeObject=Everything", accept=TABLE),
            get(f"{CM}?includeObject=Everything"),
            get(f"{CM}?includeObject=None", accept=TABLE),
        ],
        ("wording", "column-descriptions"),
    ),
    Case(
        "requests without the namespace that they need",
        [
            post(CM, cm()),
            post("/api/v1/configmaps", cm()),
            post("/api/v1/configmaps", b"x"),
            delete("/api/v1/configmaps"),
            post("/apis/kubeflow.org/v1/tfjobs", job()),
            delete("/apis/kubeflow.org/v1/tfjobs"),
            get(f"{CM}/a"),
        ],
        ("wording",),
    ),
    Case(
        "paths with invalid names",
        [
            get("//api/v1/namespaces/$ns/configmaps"),
            get("/api//v1/namespaces/$ns/configmaps"),
            get(f"{CM}/"),
            *(
                step
                for name in ("..", ".", "%2e%2e", "a%25b")
                for path in (f"{CM}/{name}", f"{JOBS}/{name}")
                for step in (get(path), delete(path), patch(path, {}))
            ),
            put(f"{CM}/..", cm("..")),
            get("/readyz/none"),
            get("/readyz/ping"),
            get("/livez/etcd"),
            get("/healthz/ping?verbose"),
        ],
        ("wording",),
    ),
]
