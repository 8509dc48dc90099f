"""Invalid requests."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    NS,
    PODS,
    SVC,
    cm,
    delete,
    get,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.transcript import Case, Step

DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
BATCH = "/apis/batch/v1/namespaces/$ns/jobs"
BUDGETS = "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets"
LABELS = {"x": "y"}
POD = pod()["spec"]
TWICE = b'{"metadata":{"name":"a"},"data":{"a":"1","a":"2"}}'
TIME = "2026-01-01T00:00:00Z"


def workload(selector: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": POD}
    return {
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": selector}, "template": template},
    }


CASES = [
    Case(
        "protected namespaces",
        [delete("/api/v1/namespaces/default"), delete("/api/v1/namespaces/kube-system")],
    ),
    Case("no such namespace", [post("/api/v1/namespaces/none-such/configmaps", cm())]),
    Case(
        "no such object",
        [get("/apis/none.such/v1/things"), get("/api/v1/namespaces/$ns/none"), get("/none")],
        differs=("wording",),
    ),
    Case(
        "invalid names",
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
        "invalid labels",
        [
            post(CM, {"metadata": {"name": "a", "labels": {"-a": "b"}}}),
            *(
                post(CM, {"metadata": {"name": "a", "labels": {key: "b"}}})
                for key in ("a" * 64, "/a", "a/", "a/b/c", "A!/b", "", "a" * 254 + "/b")
            ),
            post(CM, {"metadata": {"name": "a", "labels": {"a": "b c"}}}),
            post(CM, {"metadata": {"name": "a", "labels": {"a": "b" * 64}}}),
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
        "unreadable bodies",
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
        "methods that a path does not have",
        [post(f"{CM}/a", cm()), delete("/api/v1/namespaces"), put(CM, cm())],
        differs=("wording",),
    ),
    Case(
        "invalid queries",
        [
            post(f"{CM}?dryRun=Some", cm()),
            post(f"{CM}?fieldValidation=Sometimes", cm()),
            delete(f"{CM}/a?gracePeriodSeconds=x"),
            delete(f"{CM}/a", {"gracePeriodSeconds": "x"}),
            delete(f"{CM}/a", {"kind": "Pod", "apiVersion": "v1"}),
            get("/api/v1/namespaces/$ns/nodes"),
            get("/api/v1/configmaps/a"),
            get("/api/v2/pods"),
            get("/apis/apps/v1beta1/deployments"),
        ],
        ("wording",),
    ),
    Case(
        "workloads with contradictory fields",
        [
            post(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {}}),
            post(DEPLOYMENTS, workload({"x": "y"}, {"x": "z"})),
            post(DEPLOYMENTS, {**workload(LABELS, LABELS), "spec": {
                **workload(LABELS, LABELS)["spec"], "replicas": -1}}),
            post(BATCH, {"metadata": {"name": "a"}, "spec": {"template": {"spec": POD}}}),
            post(PODS, pod("a", {"containers": [{"name": "c"}, {"name": "c", "image": "i"}]})),
            post(PODS, pod("a", {"containers": []})),
            post(BUDGETS, {"metadata": {"name": "a"}, "spec": {
                "minAvailable": 1, "maxUnavailable": 1}}),
        ],
        ("wording", "causes"),
    ),
    Case(
        "immutable fields",
        [
            post(DEPLOYMENTS, workload(LABELS, LABELS)),
            patch(f"{DEPLOYMENTS}/a", {"spec": {"selector": {"matchLabels": {"x": "z"}}}}),
            post(CM, {**cm(), "immutable": True, "data": {"k": "v"}}),
            patch(f"{CM}/a", {"data": {"k": "w"}}),
            patch(f"{CM}/a", {"immutable": False}),
            patch(f"{CM}/a", {"metadata": {"labels": LABELS}}),
            post(f"{NS}/secrets", {"metadata": {"name": "a"}, "type": "x.io/y"}),
            patch(f"{NS}/secrets/a", {"type": "x.io/z"}),
            patch(f"{CM}/a", {"metadata": {"uid": "x", "creationTimestamp": None}}),
            patch(f"{CM}/a", {"metadata": {"generateName": "x", "deletionTimestamp": TIME}}),
        ],
        ("wording", "causes"),
    ),
    Case(
        "numbers in a query",
        [
            get(f"{CM}?{query}")
            for query in (
                "limit=9223372036854775807",
                "limit=100000000000000000000",
                "limit=-1",
                "limit=x",
                "resourceVersion=-1",
                "resourceVersion=100000000000000000000000",
                "timeoutSeconds=abc",
                "timeoutSeconds=100000000000000000000",
                "watch=1&timeoutSeconds=100000000000000000000",
                "watch=1&timeoutSeconds=abc",
            )
        ]
        + [delete(f"{CM}?limit=100000000000000000000")],
        ("wording",),
    ),
    Case(
        "integers out of range",
        [
            post(DEPLOYMENTS, {**job, "spec": {**job["spec"], **fields}})
            for job in [workload(LABELS, LABELS)]
            for fields in (
                {"replicas": 2**31},
                {"replicas": 2**63},
                {"replicas": -(2**31) - 1},
                {"strategy": {"rollingUpdate": {"maxSurge": 2**31}}},
                {"strategy": {"rollingUpdate": {"maxSurge": 2**31 - 1}}},
            )
        ]
        + [
            post(PODS, {**pod(), "spec": {**POD, "terminationGracePeriodSeconds": seconds}})
            for seconds in (2**63, -(2**63) - 1)
        ],
        ("wording",),
    ),
    Case(
        "keys of YAML",
        [
            Step("POST", CM, body, "application/yaml")
            for body in (
                b"metadata: {name: a}\ndata: {1: a, true: b, 1.5: c}",
                b"metadata: {name: b}\ndata: {~: a}",
                b"metadata: {name: c}\ndata: {a: .inf}",
                b"1: 2",
            )
        ],
        ("wording",),
    ),
    Case(
        "Accept headers",
        [
            get(f"{CM}/none", accept=accept)
            for accept in (
                "application/xml",
                "text/html",
                "garbage",
                "application/cbor-not",
                "application/yaml",
                "*/*",
                "application/*",
                "text/html, application/json;q=0.9",
                "text/html, */*;q=0.8",
                "application/json;as=Nope;g=meta.k8s.io;v=v1",
                "application/json;as=Table;g=meta.k8s.io;v=v9",
                "application/json;as=Table;g=meta.k8s.io;v=v1",
            )
        ]
        + [get(CM, accept="application/json;as=Nope;g=meta.k8s.io;v=v1")],
    ),
    Case(
        "methods",
        [Step("HEAD", CM), Step("HEAD", f"{CM}/none"), Step("OPTIONS", CM),
         Step("TRACE", "/api/v1/pods")],
        ("wording",),
    ),
    Case(
        "duplicate keys",
        [
            post(f"{CM}?fieldValidation=Strict", TWICE),
            post(f"{CM}?fieldValidation=Strict",
                 b'{"metadata":{"name":"a","name":"a"},"data":{"a":"1"},"data":{"a":"1"}}'),
            post(f"{CM}?fieldValidation=Warn", TWICE),
            post(f"{CM}?fieldValidation=Ignore", TWICE.replace(b'"a"}', b'"b"}', 1)),
            post(f"{CM}?fieldValidation=Strict", b'{"metadata":{"name":"c"},"x":1,"x":2}'),
            Step("POST", f"{CM}?fieldValidation=Strict",
                 b"metadata: {name: d}\ndata:\n  a: x\n  a: y\n", "application/yaml"),
            post(f"{JOBS}?fieldValidation=Strict",
                 b'{"apiVersion":"kubeflow.org/v1","kind":"TFJob","metadata":{"name":"a"},'
                 b'"spec":{"a":1,"a":2}}'),
        ],
        ("wording",),
    ),
]  # fmt: skip
