"""Invalid services, claims and finalizers."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import CM, NS, SVC, cm, patch, post, put
from tests.localkube.conformance.transcript import Case, Step

CLAIMS = f"{NS}/persistentvolumeclaims"


def service(**spec: Any) -> Step:
    return post(SVC, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], **spec}})


def finalizers(*names: str) -> Step:
    return post(CM, cm() | {"metadata": {"name": "a", "finalizers": [*names]}})


def asking(size: str, **spec: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}}, **spec}


CASES = [
    Case(
        "addresses of services",
        [
            service(clusterIP="1.2.3.4.5"),
            service(clusterIP="x"),
            service(clusterIP="None", clusterIPs=["10.0.0.1"]),
            service(clusterIPs=["None"]),
            service(clusterIP="None", clusterIPs=["None", "None"]),
            service(externalIPs=["x"]),
            service(externalIPs=["127.0.0.1"]),
            service(externalIPs=["0.0.0.0"]),
            service(externalIPs=["169.254.1.1", "224.0.0.1"]),
            service(externalIPs=[""]),
            service(type="ExternalName", externalName="x", clusterIP="10.0.0.1"),
            service(type="ExternalName", externalName="X_"),
        ],
        ("wording",),
    ),
    Case(
        "node ports of services that have none",
        [
            service(clusterIP="None", ports=[{"port": 80, "nodePort": 30080}]),
            service(clusterIP="None", externalTrafficPolicy="Local"),
            service(clusterIP="None", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}}),
            service(
                clusterIP="None",
                sessionAffinity="ClientIP",
                sessionAffinityConfig={"clientIP": {"timeoutSeconds": 90000}},
            ),
            service(clusterIP="None", loadBalancerSourceRanges=["10.0.0.0/8"]),
            service(clusterIP="None", healthCheckNodePort=30000),
        ],
        ("wording",),
    ),
    Case(
        "a service becomes an ExternalName, and a ClusterIP again",
        [
            service(clusterIP="None", selector={"a": "b"}),
            patch(f"{SVC}/a", {"spec": {"type": "ExternalName", "externalName": "x"}}),
            patch(
                f"{SVC}/a",
                {"spec": {"type": "ClusterIP", "clusterIP": "None", "externalName": None}},
            ),
            patch(f"{SVC}/a", {"spec": {"clusterIP": "x"}}),
            patch(f"{SVC}/a", {"spec": {"clusterIP": "10.0.0.77"}}),
            put(
                f"{SVC}/a",
                {
                    "metadata": {"name": "a"},
                    "spec": {"ports": [{"port": 81}], "selector": {"a": "b"}},
                },
            ),
            patch(f"{SVC}/a", {"spec": {"ports": [{"port": 81, "nodePort": 30081}]}}),
        ],
        ("wording",),
    ),
    Case(
        "immutable fields of a claim",
        [
            post(
                CLAIMS,
                {"metadata": {"name": "a"}, "spec": asking("1Gi", accessModes=["ReadWriteOnce"])},
            ),
            patch(f"{CLAIMS}/a", {"spec": asking("2Gi")}),
            patch(f"{CLAIMS}/a", {"spec": asking("1024Mi")}),
            patch(f"{CLAIMS}/a", {"spec": asking("500Mi")}),
            patch(f"{CLAIMS}/a", {"spec": {"accessModes": ["ReadWriteMany"]}}),
            patch(f"{CLAIMS}/a", {"spec": {"storageClassName": "x"}}),
            patch(f"{CLAIMS}/a", {"metadata": {"labels": {"a": "b"}}}),
            patch(f"{CLAIMS}/a", {"spec": {"volumeName": "v"}}),
            patch(f"{CLAIMS}/a", {"spec": {"volumeName": "w"}}),
            patch(f"{CLAIMS}/a/status", {"status": {"phase": "Bound"}}),
            patch(f"{CLAIMS}/a", {"spec": asking("2Gi")}),
            patch(f"{CLAIMS}/a", {"spec": asking("500Mi")}),
        ],
        ("wording", "volume-protection"),
    ),
    Case(
        "finalizers that contradict each other",
        [
            finalizers("orphan", "foregroundDeletion"),
            finalizers("orphan", "orphan"),
            finalizers("foregroundDeletion", "example.com/a"),
        ],
    ),
]
