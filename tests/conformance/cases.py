"""The cases: what our server must answer as the real one does. Requests only; no expectations."""

from __future__ import annotations

from typing import Any

from tests.conformance.transcript import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Case,
    Step,
)

NS = "/api/v1/namespaces/$ns"
CM, PODS, SVC = f"{NS}/configmaps", f"{NS}/pods", f"{NS}/services"
JOBS = "/apis/kubeflow.org/v1/namespaces/$ns/tfjobs"


def cm(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def pod(name: str = "a", spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"containers": [container], **(spec or {})},
    }


def job(name: str = "a", version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def get(path: str) -> Step:
    return Step("GET", path)


def post(path: str, body: Any, **more: Any) -> Step:
    return Step("POST", path, body, **more)


def put(path: str, body: Any) -> Step:
    return Step("PUT", path, body)


def patch(path: str, body: Any, how: str = MERGE) -> Step:
    return Step("PATCH", path, body, how)


def delete(path: str, body: Any = None) -> Step:
    return Step("DELETE", path, body)


VERBS = [
    Case(
        "a config map through its life",
        [
            post(CM, cm(data={"k": "v"})),
            get(f"{CM}/a"),
            get(CM),
            put(f"{CM}/a", cm(data={"k": "w"})),
            patch(f"{CM}/a", {"data": {"x": "y"}}),
            patch(f"{CM}/a", {"data": {"x": None}}),
            delete(f"{CM}/a"),
            get(f"{CM}/a"),
            delete(f"{CM}/a"),
        ],
    ),
    Case(
        "a pod through its life",
        [
            post(PODS, pod()),
            get(f"{PODS}/a"),
            patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}),
            patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}),
            get(f"{PODS}/a/status"),
            get(PODS),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "a job through its life",
        [
            post(JOBS, job(tfReplicaSpecs={"Worker": {"replicas": 1}})),
            get(f"{JOBS}/a"),
            patch(f"{JOBS}/a", {"spec": {"more": 1}}),
            patch(f"{JOBS}/a/status", {"status": {"conditions": [{"type": "Running"}]}}),
            patch(f"{JOBS}/a", {"status": {"ignored": True}}),
            patch(f"{JOBS}/a", {"metadata": {"labels": {"x": "y"}}}),
            get(JOBS),
            delete(f"{JOBS}/a"),
            get(f"{JOBS}/a"),
        ],
    ),
    Case(
        "a job in another version",
        [
            post(JOBS.replace("/v1/", "/v1beta1/"), job(version="v1beta1", a={"b": 1})),
            get(f"{JOBS}/a"),
            get(f"{JOBS}/a".replace("/v1/", "/v1alpha1/")),
            get(JOBS.replace("/v1/", "/v1beta2/")),
            patch(f"{JOBS}/a".replace("/v1/", "/v1beta2/"), {"spec": {"c": 2}}),
            get(f"{JOBS}/a"),
            post(JOBS, job("b", version="v1beta1")),
            get("/apis/kubeflow.org/v9/namespaces/$ns/tfjobs"),
        ],
    ),
    Case(
        "a deleted collection",
        [
            post(CM, cm("a")),
            post(CM, {**cm("b"), "metadata": {"name": "b", "labels": {"x": "y"}}}),
            delete(f"{CM}?labelSelector=x%3Dy"),
            get(CM),
            delete(CM),
            get(CM),
        ],
        hide=("items.data",),
    ),
    Case("generated names", [post(CM, {"metadata": {"generateName": "x-"}})]),
    Case(
        "a write that changes nothing",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", {"data": {"k": "v"}}),
            put(
                f"{CM}/a",
                {**cm(data={"k": "v"}), "metadata": {"name": "a", "resourceVersion": "$rv.0"}},
            ),
            put(
                f"{CM}/a",
                {**cm(data={"k": "w"}), "metadata": {"name": "a", "resourceVersion": "$rv.1"}},
            ),
        ],
    ),
    Case(
        "a dry run",
        [
            post(f"{CM}?dryRun=All", cm()),
            get(f"{CM}/a"),
            post(CM, cm()),
            patch(f"{CM}/a?dryRun=All", {"data": {"x": "y"}}),
            delete(f"{CM}/a?dryRun=All"),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "a service",
        [
            post(
                SVC,
                {
                    "metadata": {"name": "a"},
                    "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
                },
            ),
            delete(f"{SVC}/a"),
        ],
    ),
    Case(
        "a secret with plain strings",
        [
            post(f"{NS}/secrets", {"metadata": {"name": "a"}, "stringData": {"k": "v"}}),
            get(f"{NS}/secrets/a"),
        ],
    ),
]

CONFLICTS = [
    Case("a taken name", [post(CM, cm()), post(CM, cm())]),
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
        "another object's uid",
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

PATCHES = [
    Case(
        "JSON patch",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", [{"op": "add", "path": "/data/x", "value": "y"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "replace", "path": "/data/k", "value": "w"}], JSON_PATCH),
            patch(
                f"{CM}/a",
                [
                    {"op": "test", "path": "/data/k", "value": "w"},
                    {"op": "remove", "path": "/data/k"},
                ],
                JSON_PATCH,
            ),
            patch(f"{CM}/a", [{"op": "move", "from": "/data/x", "path": "/data/z"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "copy", "from": "/data/z", "path": "/data/c"}], JSON_PATCH),
        ],
    ),
    Case(
        "JSON patches that fail",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", [{"op": "test", "path": "/data/k", "value": "no"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "remove", "path": "/data/none"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "replace", "path": "/none/x", "value": 1}], JSON_PATCH),
            patch(f"{CM}/a", {"data": {}}, JSON_PATCH),
        ],
        wording=False,
    ),
    Case(
        "strategic merge of pod conditions",
        [
            post(PODS, pod()),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "X"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
                STRATEGIC,
            ),
        ],
    ),
    Case(
        "strategic merge of a deployment",
        [
            post(
                "/apis/apps/v1/namespaces/$ns/deployments",
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "selector": {"matchLabels": {"x": "y"}},
                        "template": {
                            "metadata": {"labels": {"x": "y"}},
                            "spec": {
                                "containers": [
                                    {
                                        "name": "c",
                                        "image": "i",
                                        "env": [{"name": "A", "value": "1"}],
                                    }
                                ]
                            },
                        },
                    },
                },
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {
                    "spec": {
                        "template": {
                            "spec": {
                                "containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]
                            }
                        }
                    }
                },
                STRATEGIC,
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {
                    "spec": {
                        "template": {
                            "spec": {
                                "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
                                "containers": [{"name": "d", "image": "j"}],
                            }
                        }
                    }
                },
                STRATEGIC,
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {
                    "spec": {
                        "template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}
                    }
                },
                STRATEGIC,
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
                STRATEGIC,
            ),
        ],
    ),
    Case(
        "strategic merge is not for custom kinds",
        [post(JOBS, job()), patch(f"{JOBS}/a", {"spec": {"x": 1}}, STRATEGIC)],
    ),
    Case(
        "a patch for another name",
        [post(CM, cm()), patch(f"{CM}/a", {"metadata": {"name": "b"}})],
        wording=False,
    ),
    Case("a patch of nothing", [patch(f"{CM}/none", {"data": {}})]),
]

SELECTORS = [
    Case(
        "label selectors",
        [
            post(CM, {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}}),
            post(CM, {"metadata": {"name": "b", "labels": {"x": "2"}}}),
            post(CM, {"metadata": {"name": "c"}}),
            *(
                get(f"{CM}?labelSelector={text}")
                for text in (
                    "x%3D1",
                    "x!%3D1",
                    "x",
                    "!x",
                    "x%20in%20(1,2)",
                    "x%20notin%20(1)",
                    "x%3D1,y%3D2",
                )
            ),
        ],
    ),
    Case(
        "field selectors",
        [
            post(PODS, pod("a")),
            post(PODS, pod("b", {"nodeName": "n"})),
            get(f"{PODS}?fieldSelector=metadata.name%3Da"),
            get(f"{PODS}?fieldSelector=spec.nodeName%3Dn"),
            get(f"{PODS}?fieldSelector=spec.nodeName!%3Dn"),
            get(f"{PODS}?fieldSelector=status.phase%3DPending,metadata.namespace%3D$ns"),
        ],
    ),
    Case(
        "selectors that make no sense",
        [get(f"{CM}?labelSelector=a%3D%3D%3Db"), get(f"{PODS}?fieldSelector=spec.foo%3Dx")],
        wording=False,
    ),
    Case(
        "pages",
        [
            *(post(CM, cm(name)) for name in "abcde"),
            get(f"{CM}?limit=2"),
            get(f"{CM}?limit=5"),
            get(f"{CM}?limit=9"),
            get(f"{CM}?limit=2&continue=nonsense"),
        ],
        wording=False,
    ),
]

PODS_CASES = [
    Case(
        "a binding",
        [
            post(PODS, pod(annotations={"old": "1"})),
            post(
                f"{PODS}/a/binding",
                {
                    "metadata": {
                        "name": "a",
                        "uid": "$uid.0",
                        "annotations": {"muster.dev/plan": "x/1"},
                    },
                    "target": {"kind": "Node", "name": "n1"},
                },
            ),
            get(f"{PODS}/a"),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n2"}},
            ),
        ],
    ),
    Case(
        "a binding of another pod's uid",
        [
            post(PODS, pod("a")),
            post(PODS, pod("b")),
            post(
                f"{PODS}/a/binding",
                {
                    "metadata": {"name": "a", "uid": "$uid.1"},
                    "target": {"kind": "Node", "name": "n"},
                },
            ),
            post(
                f"{PODS}/none/binding",
                {"metadata": {"name": "none"}, "target": {"kind": "Node", "name": "n"}},
            ),
        ],
    ),
    Case(
        "a bound pod is marked, then removed by its node",
        [
            post(PODS, pod("a", {"nodeName": "n", "terminationGracePeriodSeconds": 60})),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
            delete(f"{PODS}/a", {"gracePeriodSeconds": 10}),
            post(
                f"{PODS}/a/binding",
                {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
            ),
            delete(f"{PODS}/a?gracePeriodSeconds=0"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "finished pods go at once",
        [
            post(PODS, pod("a", {"nodeName": "n"})),
            patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "a pod cannot be changed much",
        [
            post(PODS, pod()),
            patch(f"{PODS}/a", {"spec": {"nodeName": "x"}}),
            patch(f"{PODS}/a", {"spec": {"schedulerName": "x"}}),
            patch(
                f"{PODS}/a",
                {"spec": {"containers": [{"name": "main", "image": "other"}]}},
                STRATEGIC,
            ),
        ],
        wording=False,
    ),
    Case(
        "pods with everything defaulted",
        [
            post(
                PODS,
                pod(
                    "a",
                    {
                        "containers": [
                            {
                                "name": "c",
                                "image": "x:latest",
                                "ports": [{"containerPort": 1}],
                                "env": [
                                    {
                                        "name": "N",
                                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                                    }
                                ],
                                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                            }
                        ],
                        "volumes": [{"name": "v", "configMap": {"name": "m"}}, {"name": "e"}],
                        "restartPolicy": "Never",
                        "hostNetwork": False,
                    },
                ),
            ),
            post(
                PODS,
                pod(
                    "b",
                    {
                        "hostNetwork": True,
                        "containers": [
                            {
                                "name": "c",
                                "image": "x@sha256:" + "a" * 64,
                                "ports": [{"containerPort": 1}],
                                "resources": {"requests": {"cpu": "500m"}},
                            }
                        ],
                    },
                ),
            ),
            post(PODS, pod("c", {"tolerations": [{"operator": "Exists"}]})),
        ],
    ),
    Case(
        "priority classes",
        [
            post(PODS, pod("a", {"priorityClassName": "none-such"})),
            post(PODS, pod("b", {"priorityClassName": "system-node-critical"})),
            post(PODS, pod("c", {"priority": 5})),
        ],
    ),
]

DELETION = [
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

ERRORS = [
    Case(
        "namespaces that stay",
        [delete("/api/v1/namespaces/default"), delete("/api/v1/namespaces/kube-system")],
    ),
    Case("no such namespace", [post("/api/v1/namespaces/none-such/configmaps", cm())]),
    Case(
        "no such thing",
        [get("/apis/none.such/v1/things"), get("/api/v1/namespaces/$ns/none"), get("/none")],
        wording=False,
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
        wording=False,
    ),
    Case(
        "bodies nobody reads",
        [
            Step("POST", CM, b"k8s\x00\x01", "application/vnd.kubernetes.protobuf2"),
            Step("POST", CM, b"a", "text/plain"),
            Step("PATCH", f"{CM}/a", b"a", "application/nonsense"),
        ],
        wording=False,
    ),
    Case(
        "unknown fields",
        [
            post(f"{CM}?fieldValidation=Strict", cm(nonsense=1)),
            post(f"{CM}?fieldValidation=Ignore", cm(nonsense=1)),
            post(f"{PODS}?fieldValidation=Strict", pod("a", {"nonsense": 1})),
        ],
        wording=False,
    ),
    Case("a pod without containers", [post(PODS, {"metadata": {"name": "a"}, "spec": {}})]),
    Case(
        "verbs that do not fit",
        [post(f"{CM}/a", cm()), delete("/api/v1/namespaces"), put(CM, cm())],
        wording=False,
    ),
]

WATCHES = [
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
        wording=False,
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

ALL = [
    *VERBS,
    *CONFLICTS,
    *PATCHES,
    *SELECTORS,
    *PODS_CASES,
    *DELETION,
    *ERRORS,
    *WATCHES,
]
