"""Empty fields: on built-in kinds they count as missing."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.server_side_apply import DEPLOYMENTS, apply
from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    NS,
    PODS,
    SVC,
    cm,
    delete,
    get,
    job,
    patch,
    post,
    put,
)
from tests.localkube.conformance.transcript import JSON_PATCH, STRATEGIC, Case

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns"
BATCH = "/apis/batch/v1/namespaces/$ns/jobs"
NO_METADATA: dict[str, Any] = {
    "labels": {},
    "annotations": {},
    "finalizers": [],
    "ownerReferences": [],
    "generateName": "",
}
CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "i",
    "args": [],
    "command": [],
    "env": [],
    "envFrom": [],
    "ports": [],
    "volumeMounts": [],
    "workingDir": "",
    "stdin": False,
    "tty": False,
    "resources": {"limits": {}, "requests": {}},
    "securityContext": {},
    "lifecycle": {},
    "imagePullPolicy": "",
}
SPEC: dict[str, Any] = {
    "containers": [CONTAINER],
    "initContainers": [],
    "volumes": [
        {"name": "v", "emptyDir": {"medium": ""}},
        {"name": "w", "secret": {"secretName": "s", "items": [], "optional": False}},
        {"name": "h", "hostPath": {"path": "/x", "type": ""}},
    ],
    "tolerations": [],
    "nodeSelector": {},
    "hostname": "",
    "subdomain": "",
    "hostNetwork": False,
    "hostPID": False,
    "affinity": {"nodeAffinity": {}},
    "imagePullSecrets": [],
    "hostAliases": [],
    "serviceAccountName": "",
    "priorityClassName": "",
    "nodeName": "",
    "topologySpreadConstraints": [],
    "readinessGates": [],
    "schedulingGates": [],
    "restartPolicy": "",
    "dnsConfig": {"nameservers": [], "options": []},
    "securityContext": {"supplementalGroups": [], "sysctls": [], "runAsUser": 0},
}


def deployment(name: str = "a", container: dict[str, Any] | None = None, **more: Any) -> Any:
    labels = {"a": "b"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container or {"name": "c", "image": "i"}]},
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **more},
    }


def in_template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


CASES = [
    Case(
        "pods and workloads with empty fields",
        [
            post(PODS, {"metadata": {"name": "a", **NO_METADATA}, "spec": SPEC}),
            patch(
                f"{PODS}/a/status",
                {
                    "status": {
                        "message": "",
                        "reason": "",
                        "hostIP": "",
                        "podIP": "",
                        "phase": "Running",
                        "conditions": [],
                        "containerStatuses": [
                            {
                                "name": "c",
                                "ready": False,
                                "restartCount": 0,
                                "image": "",
                                "imageID": "",
                                "containerID": "",
                                "state": {},
                                "lastState": {},
                            }
                        ],
                    }
                },
            ),
            post(
                DEPLOYMENTS,
                deployment(
                    template={
                        "metadata": {"labels": {"a": "b"}, "annotations": {}, "name": ""},
                        "spec": SPEC,
                    },
                    paused=False,
                    minReadySeconds=0,
                    replicas=0,
                    revisionHistoryLimit=0,
                    strategy={},
                ),
            ),
            post(
                BATCH,
                {
                    "metadata": {"name": "j"},
                    "spec": {
                        "suspend": False,
                        "parallelism": 0,
                        "completions": 0,
                        "backoffLimit": 0,
                        "ttlSecondsAfterFinished": 0,
                        "template": {
                            "metadata": {"annotations": {}},
                            "spec": {**SPEC, "restartPolicy": "Never"},
                        },
                    },
                },
            ),
            patch(
                f"{BATCH}/j/status",
                {"status": {"active": 0, "failed": 0, "conditions": [], "completedIndexes": ""}},
            ),
        ],
    ),
    Case(
        "patches of a deployment with empty fields",
        [
            post(DEPLOYMENTS, deployment()),
            patch(f"{DEPLOYMENTS}/a", in_template(tolerations=[], nodeSelector={})),
            patch(f"{DEPLOYMENTS}/a", in_template(hostname="", hostNetwork=False), STRATEGIC),
            patch(f"{DEPLOYMENTS}/a", {"spec": {"paused": False, "minReadySeconds": 0}}),
            patch(
                f"{DEPLOYMENTS}/a",
                [
                    {"op": "add", "path": "/spec/template/spec/containers/0/args", "value": []},
                    {"op": "add", "path": "/metadata/labels", "value": {}},
                ],
                JSON_PATCH,
            ),
            apply(
                f"{DEPLOYMENTS}/a",
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "a", "labels": {}},
                    **in_template(tolerations=[], containers=[{"name": "c", "env": []}]),
                },
            ),
            get(f"{DEPLOYMENTS}/a"),
            put(f"{DEPLOYMENTS}/a", deployment("a", CONTAINER, paused=False)),
            patch(
                f"{DEPLOYMENTS}/a/status",
                {"status": {"replicas": 0, "conditions": [], "collisionCount": 0}},
            ),
            get(f"{DEPLOYMENTS}/a"),
        ],
    ),
    Case(
        "other kinds with empty fields",
        [
            post(CM, cm(data={}, binaryData={})),
            post(CM, cm("b", data={"a": ""}, immutable=False)),
            patch(f"{CM}/a", {"data": {}}),
            post(f"{NS}/secrets", {"metadata": {"name": "s"}, "data": {}, "stringData": {}}),
            post(
                f"{NS}/secrets",
                {"metadata": {"name": "t"}, "data": {"a": ""}, "stringData": {"b": ""}},
            ),
            post(
                SVC,
                {
                    "metadata": {"name": "s"},
                    "spec": {
                        "selector": {},
                        "ports": [{"port": 80, "name": "", "nodePort": 0}],
                        "clusterIP": "None",
                        "externalIPs": [],
                        "externalName": "",
                        "publishNotReadyAddresses": False,
                    },
                },
            ),
            post(f"{RBAC}/roles", {"metadata": {"name": "r"}, "rules": []}),
            post(
                f"{RBAC}/rolebindings",
                {
                    "metadata": {"name": "r"},
                    "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"},
                    "subjects": [],
                },
            ),
            post(
                "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
                {"metadata": {"name": "l"}, "spec": {"leaseTransitions": 0}},
            ),
            post(
                "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets",
                {
                    "metadata": {"name": "l"},
                    "spec": {
                        "selector": {"matchLabels": {}, "matchExpressions": []},
                        "minAvailable": 0,
                    },
                },
            ),
            post(
                f"{NS}/resourcequotas",
                {"metadata": {"name": "l"}, "spec": {"hard": {}, "scopes": []}},
            ),
            post(
                "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices",
                {"metadata": {"name": "l"}, "addressType": "IPv4", "endpoints": [], "ports": []},
            ),
            post(f"{NS}/endpoints", {"metadata": {"name": "l"}, "subsets": []}),
            post(
                f"{NS}/serviceaccounts",
                {
                    "metadata": {"name": "l"},
                    "secrets": [],
                    "imagePullSecrets": [],
                    "automountServiceAccountToken": False,
                },
            ),
            post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {
                    "metadata": {"name": "$ns"},
                    "value": 0,
                    "globalDefault": False,
                    "description": "",
                },
            ),
            delete("/apis/scheduling.k8s.io/v1/priorityclasses/$ns"),
        ],
        ("managed-fields",),
    ),
    Case(
        "custom objects keep empty fields, except in metadata",
        [
            post(
                JOBS,
                {**job(x=[], y={}, z="", n=0, b=False), "metadata": {"name": "a", **NO_METADATA}},
            ),
            patch(f"{JOBS}/a", {"metadata": {"labels": {}, "annotations": {}}}),
            patch(f"{JOBS}/a", {"spec": {"x": {}}}),
        ],
    ),
    Case(
        "nulls in maps and lists",
        [
            post(CM, cm(data={"a": None, "b": "c"})),
            post(CM, {**cm("b"), "metadata": {"name": "b", "labels": {"a": None}}}),
            put(f"{CM}/b", cm("b", data={"k": None}, binaryData={"m": None})),
            patch(f"{CM}/b", [{"op": "add", "path": "/data/x", "value": None}], JSON_PATCH),
            patch(f"{CM}/b", {"data": {"k": None}}),
            post(
                PODS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "nodeSelector": {"a": None},
                        "containers": [
                            {
                                "name": "c",
                                "image": "i",
                                "args": ["a", None],
                                "resources": {"limits": {"example.com/x": None}},
                            }
                        ],
                    },
                },
            ),
        ],
    ),
]
