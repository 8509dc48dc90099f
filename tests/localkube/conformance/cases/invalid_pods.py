"""Pods, pod templates and batch jobs that decode and are invalid."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import NS, PODS, SVC, patch, pod, post
from tests.localkube.conformance.transcript import JSON_PATCH, STRATEGIC, Case, Step

QUOTAS, LIMITS = f"{NS}/resourcequotas", f"{NS}/limitranges"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
BATCH_JOBS = "/apis/batch/v1/namespaces/$ns/jobs"


def main(**container: Any) -> Step:
    """A pod whose only container is so."""
    return post(PODS, pod(spec={"containers": [{"name": "main", "image": "a:1", **container}]}))


def spec(**more: Any) -> Step:
    return post(PODS, pod(spec=more))


def service(**spec: Any) -> Step:
    return post(SVC, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], **spec}})


def mounted(**mount: Any) -> Step:
    """A pod that mounts one volume so."""
    mounts = [{"name": "v", "mountPath": "/a", **mount}]
    containers = [{"name": "main", "image": "a:1", "volumeMounts": mounts}]
    return post(PODS, pod(spec={"volumes": [{"name": "v"}], "containers": containers}))


def batch(spec: dict[str, Any]) -> Step:
    containers = [{"name": "main", "image": "a:1"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    body = {"metadata": {"name": "a"}, "spec": {"template": template, **spec}}
    return post(BATCH_JOBS, body)


def sysctls(*names: str) -> Step:
    """A pod that sets these kernel parameters."""
    return spec(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]})


DEADLINE = "/spec/activeDeadlineSeconds"
GRACE = """
apiVersion: v1
kind: Pod
metadata: {name: z}
spec: {terminationGracePeriodSeconds: 5.0, containers: [{name: c, image: "a:1"}]}
"""
RULES = {
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    }
}
NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"
PROBE = {"tcpSocket": {"port": 80}}

CASES = [
    Case(
        "volumes and their mounts",
        [
            main(volumeMounts=[{"name": "no-such", "mountPath": "/a"}]),
            main(volumeMounts=[{"name": "no-such"}]),
            main(volumeMounts=[{"mountPath": "/a"}]),
            spec(volumes=[{"name": "v"}, {"name": "v"}]),
            spec(volumes=[{"emptyDir": {}}]),
            spec(volumes=[{"name": "V_"}]),
            spec(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}]),
            spec(volumes=[{"name": "v", "hostPath": {}}]),
            spec(volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
            spec(volumes=[{"name": "v", "secret": {}}, {"name": "w", "configMap": {}}]),
            post(
                PODS,
                pod(
                    spec={
                        "volumes": [{"name": "v"}],
                        "containers": [
                            {
                                "name": "main",
                                "image": "a:1",
                                "volumeMounts": [
                                    {"name": "v", "mountPath": "/a"},
                                    {"name": "v", "mountPath": "/a"},
                                ],
                            }
                        ],
                    }
                ),
            ),
        ],
    ),
    Case(
        "mounts of a part of a volume",
        [
            mounted(subPath="../a"),
            mounted(subPath="a/../b"),
            mounted(subPath="/a"),
            mounted(subPath="a..b/c"),
            mounted(subPathExpr="../$(A)"),
            mounted(subPathExpr="/a"),
            mounted(subPath="a", subPathExpr="b"),
        ],
    ),
    Case(
        "a job's replacements with a failure policy",
        [
            batch(RULES),
            batch({**RULES, "podReplacementPolicy": "TerminatingOrFailed"}),
            batch({"podReplacementPolicy": "Never"}),
        ],
        ("wording",),
    ),
    Case(
        "integers written with a point",
        [
            spec(terminationGracePeriodSeconds=5.0),
            main(ports=[{"containerPort": 80.0}]),
            main(ports=[{"containerPort": 80.5}]),
            service(ports=[{"port": 80, "targetPort": 80.0}]),
            post(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {"replicas": 1.0}}),
            Step("POST", PODS, GRACE.encode(), "application/yaml"),
            post(PODS, pod("y")),
            patch(f"{PODS}/y", {"spec": {"activeDeadlineSeconds": 50.0}}),
            patch(f"{PODS}/y", {"spec": {"activeDeadlineSeconds": 50.0}}, STRATEGIC),
            patch(f"{PODS}/y", [{"op": "add", "path": DEADLINE, "value": 40.0}], JSON_PATCH),
        ],
        ("wording",),
    ),
    Case(
        "unsupported values",
        [
            main(imagePullPolicy="Sometimes"),
            main(imagePullPolicy=""),
            main(terminationMessagePolicy="Shout"),
            main(ports=[{"containerPort": 80, "protocol": "tcp"}]),
            spec(restartPolicy="Sometimes"),
            spec(dnsPolicy="Sometimes"),
            spec(tolerations=[{"key": "a", "operator": "Is"}]),
            spec(tolerations=[{"key": "a", "operator": "Exists", "effect": "Never"}]),
            spec(volumes=[{"name": "v", "hostPath": {"path": "/a", "type": "Thing"}}]),
            spec(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "-1Mi"}}]),
            spec(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "0"}}]),
            sysctls("kernel.shm_rmid_forced", "net/core/somaxconn", "a.b", "a.b"),
            sysctls("../etc", "Kernel", "a..b", "a b", "x" * 254),
            sysctls(""),
            service(type="Magic"),
            service(sessionAffinity="Sometimes"),
            service(ports=[{"port": 80, "protocol": "HTTP"}]),
            service(internalTrafficPolicy="Somewhere"),
        ],
    ),
    Case(
        "ports, environments and probes",
        [
            main(ports=[{"containerPort": 0}]),
            main(ports=[{"containerPort": 70000}]),
            main(ports=[{"containerPort": 80, "name": "A port"}]),
            main(ports=[{"containerPort": 80, "hostPort": 70000}]),
            main(ports=[{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]),
            main(env=[{"value": "1"}]),
            main(env=[{"name": "A=B", "value": "1"}]),
            main(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}]),
            main(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nonsense"}}}]),
            main(env=[{"name": "A", "valueFrom": {}}]),
            main(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a"}}}]),
            main(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]),
            main(livenessProbe={"periodSeconds": 1}),
            main(livenessProbe={**PROBE, "httpGet": {"port": 80}}),
            main(livenessProbe={**PROBE, "periodSeconds": -1}),
            main(livenessProbe={**PROBE, "successThreshold": 2}),
            main(readinessProbe={"httpGet": {"path": "/", "port": 0}}),
            main(readinessProbe={"exec": {}}),
        ],
    ),
    Case(
        "requests and limits of containers",
        [
            main(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            main(resources={"requests": {"cpu": "-1"}}),
            main(resources={"requests": {"nvidia.com/gpu": "1"}}),
            main(resources={"limits": {"nvidia.com/gpu": "1500m"}}),
            main(
                resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}
            ),
            main(resources={"limits": {"nonsense": "1"}}),
        ],
    ),
    Case(
        "other parts of a pod",
        [
            spec(activeDeadlineSeconds=0),
            spec(terminationGracePeriodSeconds=-1),
            spec(nodeSelector={"a b": "c"}),
            spec(nodeName="A b"),
            spec(hostname="A.b"),
            spec(subdomain="A.b"),
            spec(serviceAccountName="A b"),
            spec(schedulerName="A b"),
            spec(initContainers=[{"name": "main", "image": "a:1"}]),
            spec(initContainers=[{"image": "a:1"}]),
            main(name="A b"),
            main(image=" a:1"),
            spec(tolerations=[{"operator": "Equal", "value": "a"}]),
            spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            spec(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
            spec(schedulingGates=[{"name": "a"}, {"name": "a"}]),
        ],
    ),
    Case(
        "templates with mistakes",
        [
            post(
                DEPLOYMENTS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "selector": {"matchLabels": {"a": "b"}},
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [
                                    {
                                        "name": "main",
                                        "image": "a:1",
                                        "imagePullPolicy": "Sometimes",
                                        "volumeMounts": [{"name": "no", "mountPath": "/a"}],
                                    }
                                ],
                            },
                        },
                    },
                },
            ),
            post(
                BATCH_JOBS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "parallelism": -1,
                        "backoffLimit": -1,
                        "template": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [
                                    {"name": "main", "image": "a:1", "imagePullPolicy": "No"}
                                ],
                            },
                        },
                    },
                },
            ),
        ],
    ),
    Case(
        "affinities with mistakes",
        [
            spec(affinity={"nodeAffinity": {NEEDED: {"nodeSelectorTerms": []}}}),
            spec(affinity={"nodeAffinity": {NEEDED: {}}}),
            spec(
                affinity={
                    "nodeAffinity": {
                        NEEDED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Is"}]}
                            ]
                        }
                    }
                }
            ),
            spec(
                affinity={
                    "nodeAffinity": {
                        NEEDED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "In"}]}
                            ]
                        }
                    }
                }
            ),
            spec(affinity={"podAffinity": {NEEDED: [{"labelSelector": {}}]}}),
        ],
    ),
]
