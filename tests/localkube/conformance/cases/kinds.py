"""Every verb on every kind: namespaced, cluster-wide and custom."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import delete, get, patch, post, put
from tests.localkube.conformance.transcript import JSON_PATCH, MERGE, STRATEGIC, Case, Step

POD = {"containers": [{"name": "c", "image": "busybox:1"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SELECTOR = {"matchLabels": {"a": "b"}}

# group/version/plural: what an object of the kind says besides its name.
NAMESPACED: dict[str, dict[str, Any]] = {
    "v1/pods": {"spec": POD},
    "v1/services": {"spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
    "v1/endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1}]}]},
    "v1/configmaps": {"data": {"k": "v"}, "binaryData": {"b": "AAE="}},
    "v1/secrets": {"data": {"k": "dg=="}, "type": "Opaque"},
    "v1/serviceaccounts": {},
    "v1/events": {
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "$ns"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
    },
    "v1/limitranges": {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}},
    "v1/persistentvolumeclaims": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        }
    },
    "apps/v1/deployments": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/daemonsets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/replicasets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/statefulsets": {
        "spec": {
            "selector": SELECTOR,
            "template": TEMPLATE,
            "serviceName": "s",
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
            ],
        }
    },
    "batch/v1/jobs": {
        "spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}, "backoffLimit": 1}
    },
    "batch/v1/cronjobs": {
        "spec": {
            "schedule": "0 3 * * 1-5",
            "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "OnFailure"}}}},
        }
    },
    "policy/v1/poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "coordination.k8s.io/v1/leases": {"spec": {"holderIdentity": "me"}},
    "discovery.k8s.io/v1/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"port": 1}],
    },
    "rbac.authorization.k8s.io/v1/roles": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "rbac.authorization.k8s.io/v1/rolebindings": {
        "roleRef": {"kind": "Role", "name": "x", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "$ns"}],
    },
    "kubeflow.org/v1/tfjobs": {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}},
    "scheduling.volcano.sh/v1beta1/podgroups": {"spec": {"minMember": 2}},
}
CLUSTER: dict[str, dict[str, Any]] = {
    "v1/namespaces": {},
    "v1/nodes": {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}},
    "v1/persistentvolumes": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        }
    },
    "scheduling.k8s.io/v1/priorityclasses": {"value": 5},
    "storage.k8s.io/v1/storageclasses": {"provisioner": "x.io/y"},
    "rbac.authorization.k8s.io/v1/clusterroles": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "roleRef": {"kind": "ClusterRole", "name": "x", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    },
}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
KINDS = {"tfjobs": "TFJob", "podgroups": "PodGroup"}
DIFFERS = {
    "events": ("zero-values",),
    "nodes": ("zero-values",),
    "endpointslices": ("zero-values",),
    "jobs": ("wording",),
    "persistentvolumes": ("volume-protection",),
    "persistentvolumeclaims": ("volume-protection",),
}


def life(place: str, rest: dict[str, Any], *, namespaced: bool) -> Case:
    """Create, read, replace, patch in every way, delete one, delete many."""
    version, _, plural = place.rpartition("/")
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    many = f"{root}/namespaces/$ns/{plural}" if namespaced else f"{root}/{plural}"
    name, other = "$ns-a", "$ns-b"
    one, labelled = f"{many}/{name}", f"{many}?labelSelector=case%3D$ns"
    custom = plural in KINDS
    type_meta = {"apiVersion": version, "kind": KINDS[plural]} if custom else {}

    def body(called: str, **meta: Any) -> dict[str, Any]:
        labels = {"case": "$ns"}
        return {**type_meta, "metadata": {"name": called, "labels": labels, **meta}, **rest}

    steps = [
        post(f"{many}?dryRun=All", body(name)),
        post(many, body(name)),
        post(many, body(name)),
        get(one),
        get(labelled),
        get(f"{many}?fieldSelector=metadata.name%3D{name}"),
        put(one, body(name, annotations={"a": "1"}, resourceVersion="$rv.1")),
        put(one, body(name, annotations={"a": "2"}, resourceVersion="$rv.1")),
        put(f"{many}/{other}", body(other)),
        patch(one, {"metadata": {"annotations": {"a": "3"}}}),
        patch(one, [{"op": "add", "path": "/metadata/labels/b", "value": "1"}], JSON_PATCH),
        patch(one, {"metadata": {"labels": {"b": None}}}, STRATEGIC),
        patch(f"{one}?dryRun=All", {"metadata": {"labels": {"c": "1"}}}),
        get(f"{one}/status"),
        Step("PATCH", f"{one}/status", {"metadata": {"annotations": {"s": "1"}}}, MERGE),
        get(f"{one}/none"),
        delete(f"{one}?dryRun=All"),
        delete(
            one,
            {"preconditions": {"resourceVersion": "$rv.1"}, "propagationPolicy": "Background"},
        ),
    ]
    # Without controllers, these stay until somebody takes their finalizers off.
    if plural not in ("namespaces", "persistentvolumes", "persistentvolumeclaims"):
        steps += [
            delete(one),
            get(one),
            post(many, body(other)),
            delete(labelled),
            get(labelled),
        ]
    return Case(f"the life of {plural} in {version}", steps, DIFFERS.get(plural, ()))


def row(place: str, rest: dict[str, Any], *, namespaced: bool) -> Case:
    """What a table shows of an object."""
    version, _, plural = place.rpartition("/")
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    many = f"{root}/namespaces/$ns/{plural}" if namespaced else f"{root}/{plural}"
    type_meta = {"apiVersion": version, "kind": KINDS[plural]} if plural in KINDS else {}
    meta = {"name": "$ns-t", "labels": {"case": "$ns"}}
    shown = get(f"{many}?labelSelector=case%3D$ns", accept=TABLE)
    steps = [post(many, {**type_meta, "metadata": meta, **rest}), shown]
    differs = (*DIFFERS.get(plural, ()), "column-descriptions")
    return Case(f"a row of {plural} in {version}", steps, differs)


CASES = [
    *(life(place, rest, namespaced=True) for place, rest in NAMESPACED.items()),
    *(life(place, rest, namespaced=False) for place, rest in CLUSTER.items()),
    *(row(place, rest, namespaced=True) for place, rest in NAMESPACED.items()),
    *(row(place, rest, namespaced=False) for place, rest in CLUSTER.items()),
]
