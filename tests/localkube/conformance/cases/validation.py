"""Objects of built-in kinds other than pods that decode and are invalid."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.invalid_pods import main, service
from tests.localkube.conformance.cases.steps import NS, PODS, SVC, patch, pod, post
from tests.localkube.conformance.transcript import Case, Step

QUOTAS, LIMITS = f"{NS}/resourcequotas", f"{NS}/limitranges"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
BATCH_JOBS = "/apis/batch/v1/namespaces/$ns/jobs"


def quota(name: str = "a", **spec: Any) -> Step:
    return post(QUOTAS, {"metadata": {"name": name}, "spec": spec})


QUANTITIES = [
    Case(
        "invalid quantities",
        [
            main(resources={"requests": {"cpu": "a lot"}}),
            main(resources={"requests": {"cpu": ""}}),
            main(resources={"requests": {"cpu": "1Ki2"}}),
            main(resources={"limits": {"memory": "1GB"}}),
            quota(hard={"cpu": "many"}),
            post(
                "/api/v1/nodes", {"metadata": {"name": "$ns"}, "status": {"capacity": {"a": "b"}}}
            ),
        ],
        ("wording",),
    ),
    Case(
        "quantities in other notations",
        [
            post(
                PODS,
                pod(
                    name,
                    {
                        "containers": [
                            {"name": "a", "image": "a:1", "resources": {"requests": wanted}}
                        ]
                    },
                ),
            )
            for name, wanted in (
                ("a", {"cpu": "0.5", "memory": "1024Mi"}),
                ("b", {"cpu": 2, "memory": "1000000000"}),
                ("c", {"cpu": "1000m", "memory": "1.5Gi"}),
                ("d", {"cpu": 0.25, "memory": "1e3"}),
                ("e", {"cpu": "0.0001", "memory": "0"}),
                ("f", {"cpu": "1", "memory": "1024"}),
                ("g", {"cpu": "1500e-3", "memory": "1e5"}),
                ("h", {"cpu": "12345e-5", "memory": "Gi"}),
                ("j", {"cpu": "9999999999999999999999E", "memory": "1"}),
                ("k", {"cpu": "1", "memory": "9999999999999999999999Ei"}),
                ("l", {"cpu": "1", "memory": "9e99"}),
                ("m", {"cpu": "1", "memory": "9E"}),
                ("n", {"cpu": "1", "memory": "10E"}),
            )
        ],
    ),
]

QUOTAS_WRONG = [
    Case(
        "invalid quotas",
        [
            quota(hard={"pods": "-1"}),
            quota(hard={"pods": "1500m"}),
            quota(hard={"nonsense": "1"}),
            quota(hard={"a b": "1"}),
            quota(hard={"requests.nvidia.com/gpu": "2", "count/jobs.batch": "1"}),
            quota("b", hard={"limits.nvidia.com/gpu": "2"}),
            quota("c", hard={"cpu": "1"}, scopes=["Sometimes"]),
            quota("c", hard={"cpu": "1"}, scopes=["BestEffort"]),
            quota("c", hard={"pods": "1"}, scopes=["BestEffort", "NotBestEffort"]),
            quota(
                "c",
                hard={"pods": "1"},
                scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass"}]},
            ),
            quota(
                "c",
                hard={"pods": "1"},
                scopeSelector={
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": []}
                    ]
                },
            ),
            quota(
                "c",
                hard={"pods": "1"},
                scopeSelector={
                    "matchExpressions": [
                        {"scopeName": "BestEffort", "operator": "In", "values": ["a"]}
                    ]
                },
            ),
            patch(f"{QUOTAS}/a", {"spec": {"hard": {"pods": "-1"}}}),
            patch(f"{QUOTAS}/a", {"spec": {"scopes": ["Terminating"]}}),
        ],
    ),
]

SECRETS, CLAIMS = f"{NS}/secrets", f"{NS}/persistentvolumeclaims"
BUDGETS = "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
EVENTS = f"{NS}/events"


def config(**more: Any) -> Step:
    return post(f"{NS}/configmaps", {"metadata": {"name": "a"}, **more})


def secret(**more: Any) -> Step:
    return post(SECRETS, {"metadata": {"name": "a"}, **more})


def meta(**more: Any) -> Step:
    return post(f"{NS}/configmaps", {"metadata": {"name": "a", **more}})


def budget(**spec: Any) -> Step:
    return post(BUDGETS, {"metadata": {"name": "a"}, "spec": spec})


def lease(**spec: Any) -> Step:
    return post(LEASES, {"metadata": {"name": "a"}, "spec": spec})


OTHERS_WRONG = [
    Case(
        "config maps and secrets with mistakes",
        [
            config(data={"a b": "c"}),
            config(data={"a": "b"}, binaryData={"a": "Yg=="}),
            config(data={"..": "c"}),
            config(data={"a": "x" * 1100000}),
            config(binaryData={"a": "not base64!"}),
            secret(data={"a/b": "Yg=="}),
            secret(data={"a": "not base64!"}),
            secret(type="kubernetes.io/tls", data={"tls.crt": ""}),
            secret(type="kubernetes.io/tls"),
            secret(type="kubernetes.io/dockerconfigjson"),
            secret(type="kubernetes.io/dockerconfig"),
            secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "Yg=="}),
            secret(type="kubernetes.io/basic-auth"),
            secret(type="kubernetes.io/ssh-auth"),
            secret(type="kubernetes.io/service-account-token"),
        ],
        ("wording",),
    ),
    Case(
        "metadata with mistakes",
        [
            meta(annotations={"a": "x" * 300000}),
            meta(finalizers=["bad"]),
            meta(finalizers=["x.io/a b"]),
            meta(creationTimestamp="foo"),
            meta(generateName="a" * 300),
            meta(generateName="A_"),
            meta(labels={"a": "b c"}),
            meta(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]),
            meta(ownerReferences=[{"apiVersion": "a/b/c", "kind": "A", "name": "a", "uid": "b"}]),
            meta(ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "b"}]),
        ],
        ("wording",),
    ),
    Case(
        "services with mistakes",
        [
            post(SVC, {"metadata": {"name": "a"}, "spec": {"selector": {"a": "b"}}}),
            service(ports=[{"port": 80}, {"port": 81}]),
            service(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
            service(ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]),
            service(ports=[{"port": 80, "name": "A b"}]),
            service(ports=[{"port": 80, "targetPort": 70000}]),
            service(ports=[{"port": 80, "targetPort": "A b"}]),
            service(selector={"a b": "c"}),
            service(type="ExternalName"),
        ],
    ),
    Case(
        "budgets and leases with mistakes",
        [
            budget(minAvailable="101x"),
            budget(minAvailable="101%"),
            budget(minAvailable=-1),
            budget(maxUnavailable="x"),
            lease(leaseDurationSeconds=0),
            lease(leaseDurationSeconds=-1),
            lease(renewTime="x"),
            lease(leaseTransitions=-1),
        ],
        ("wording",),
    ),
    Case(
        "volumes with mistakes",
        [
            post(CLAIMS, {"metadata": {"name": "a"}}),
            post(CLAIMS, {"metadata": {"name": "a"}, "spec": {"accessModes": ["Foo"]}}),
            post(
                CLAIMS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "0"}},
                    },
                },
            ),
            post("/api/v1/persistentvolumes", {"metadata": {"name": "$ns"}}),
            post(
                "/api/v1/persistentvolumes",
                {
                    "metadata": {"name": "$ns"},
                    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
                },
            ),
        ],
    ),
    Case(
        "events with mistakes",
        [
            post(EVENTS, {"metadata": {"name": "a"}}),
            post(EVENTS, {"metadata": {"name": "a"}, "involvedObject": {"namespace": "other"}}),
            post(EVENTS, {"metadata": {"name": "a"}, "involvedObject": {"namespace": "$ns"}}),
        ],
        ("zero-values",),
    ),
]

CASES = [*OTHERS_WRONG, *QUANTITIES, *QUOTAS_WRONG]
