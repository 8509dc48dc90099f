"""Requests that make no sense."""

from __future__ import annotations

from tests.conformance.cases.requests import CM, JOBS, PODS, SVC, cm, delete, get, pod, post, put
from tests.conformance.transcript import Case, Step

CASES = [
    Case(
        "namespaces that stay",
        [delete("/api/v1/namespaces/default"), delete("/api/v1/namespaces/kube-system")],
    ),
    Case("no such namespace", [post("/api/v1/namespaces/none-such/configmaps", cm())]),
    Case(
        "no such thing",
        [get("/apis/none.such/v1/things"), get("/api/v1/namespaces/$ns/none"), get("/none")],
        differs=("wording",),
    ),
    Case(
        "names that are not names",
        [
            post(CM, cm("A")),
            post(CM, cm("-a")),
            post(CM, cm("")),
            post(CM, cm("a" * 254)),
            post(
                SVC,
                {
                    "metadata": {"name": "1a"},
                    "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 1}]},
                },
            ),
            post("/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
        ],
    ),
    Case(
        "labels that are not labels",
        [
            post(CM, {"metadata": {"name": "a", "labels": {"-a": "b"}}}),
            post(CM, {"metadata": {"name": "a", "labels": {"a": "b c"}}}),
            post(CM, {"metadata": {"name": "a", "annotations": {"a b": "c"}}}),
        ],
    ),
    Case(
        "bodies of the wrong kind",
        [
            post(CM, pod()),
            post(CM, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            post(CM, {**cm(), "metadata": {"name": "a", "namespace": "other"}}),
            post(CM, [1, 2]),
            post(CM, b"{nonsense"),
            post(CM, b""),
            post(CM, cm(data={"k": 1})),
            post(CM, {"metadata": {"name": "a", "labels": {"a": 1}}}),
            post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": "x"}}),
            post(JOBS, {"metadata": {"name": "a"}, "spec": "x"}),
        ],
        differs=("wording",),
    ),
    Case(
        "bodies nobody reads",
        [
            Step("POST", CM, b"k8s\x00\x01", "application/vnd.kubernetes.protobuf2"),
            Step("POST", CM, b"a", "text/plain"),
            Step("PATCH", f"{CM}/a", b"a", "application/nonsense"),
        ],
        differs=("wording",),
    ),
    Case(
        "unknown fields",
        [
            post(f"{CM}?fieldValidation=Strict", cm(nonsense=1)),
            post(f"{CM}?fieldValidation=Ignore", cm(nonsense=1)),
            post(f"{PODS}?fieldValidation=Strict", pod("a", {"nonsense": 1})),
        ],
        differs=("wording",),
    ),
    Case("a pod without containers", [post(PODS, {"metadata": {"name": "a"}, "spec": {}})]),
    Case(
        "verbs that do not fit",
        [post(f"{CM}/a", cm()), delete("/api/v1/namespaces"), put(CM, cm())],
        differs=("wording",),
    ),
]
