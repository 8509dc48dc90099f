"""What the server fills in where a client said nothing, per built-in kind.

Pure; called by `admit.py` on create and update. The published schemas carry only some of
Kubernetes' defaults, so those of the kinds we run are written here; those of pods in
`pod_defaults.py`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from muster.local.apiserver.kinds import pod_defaults
from muster.local.apiserver.kinds.fields import ensure_map, fill, fill_zeros, maps_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.meta import Raw


_REMEMBERED = 3 * 3600  # seconds
_NO_LIMIT = 2**31 - 1


def defaults(collection: str, obj: Raw) -> None:
    """Complete an object of a built-in kind in place."""
    rule = _RULES.get(collection)
    if rule is not None:
        rule(obj)


def _template(owner: Raw, restart: str = "Always") -> None:
    template = ensure_map(owner, "template")
    ensure_map(template, "metadata")
    pod_defaults.complete_spec(ensure_map(template, "spec"), restart)


def _deployment(deployment: Raw) -> None:
    spec = fill(
        ensure_map(deployment, "spec"),
        replicas=1,
        revisionHistoryLimit=10,
        progressDeadlineSeconds=600,
    )
    strategy = fill(ensure_map(spec, "strategy"), type="RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        fill(ensure_map(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _template(spec)
    fill(deployment, status={})


def _replica_set(replica_set: Raw) -> None:
    _template(fill(ensure_map(replica_set, "spec"), replicas=1))
    fill(replica_set, status={"replicas": 0})


def _job(job: Raw) -> None:
    rules = (ensure_map(job, "spec").get("podFailurePolicy") or {}).get("rules") or ()
    for row in (row for rule in rules for row in rule.get("onPodConditions") or ()):
        fill(row, status="True")
    spec = fill(
        ensure_map(job, "spec"),
        completionMode="NonIndexed",
        manualSelector=False,
        suspend=False,
        backoffLimit=_NO_LIMIT
        if ensure_map(job, "spec").get("backoffLimitPerIndex") is not None
        else 6,
        podReplacementPolicy="Failed" if rules else "TerminatingOrFailed",
    )
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, parallelism=1)
    _template(spec)
    if spec.get("selector"):  # a new job gets one, and labels to find its pods by, only later
        job_labels(job)
    fill(job, status={})


def job_labels(job: Raw) -> None:
    """A job without labels has those of its pods."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _budget(budget: Raw) -> None:
    none = dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    )
    fill(budget, status=none)


def _node(node: Raw) -> None:
    ensure_map(node, "spec")
    status = ensure_map(node, "status")
    if status.get("capacity"):
        fill(status, allocatable=dict(status["capacity"]))


def _quota(quota: Raw) -> None:
    fill(quota, status={})


def _service(service: Raw) -> None:
    spec = fill(ensure_map(service, "spec"), type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        # There are no virtual addresses here: every service is its pods' addresses. Without ports
        # one must say so itself, as anywhere.
        if not spec.get("clusterIPs") and (spec.get("ports") or spec.get("clusterIP") == "None"):
            spec["clusterIPs"] = [fill(spec, clusterIP="None")["clusterIP"]]
        fill(spec, internalTrafficPolicy="Cluster")
        # Without a selector nobody knows what the addresses will be.
        alone = bool(spec.get("selector"))
        fill(
            spec,
            ipFamilies=["IPv4"] if alone else ["IPv4", "IPv6"],
            ipFamilyPolicy="SingleStack" if alone else "RequireDualStack",
        )
    if spec["type"] in ("NodePort", "LoadBalancer"):
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["sessionAffinity"] == "ClientIP":
        fill(
            ensure_map(ensure_map(spec, "sessionAffinityConfig"), "clientIP"),
            timeoutSeconds=_REMEMBERED,
        )
    else:
        spec.pop("sessionAffinityConfig", None)
    for port in maps_in(spec.get("ports")):
        fill_zeros(port, protocol="TCP", targetPort=port.get("port"))
    fill(service, status={"loadBalancer": {}})


def _namespace(namespace: Raw) -> None:
    name = namespace["metadata"].get("name")
    if name:
        labels = ensure_map(namespace["metadata"], "labels")
        labels["kubernetes.io/metadata.name"] = name
    spec = ensure_map(namespace, "spec")
    if not spec.get("finalizers"):
        spec.pop("finalizers", None)
    fill(ensure_map(namespace, "status"), phase="Active")


def _secret(secret: Raw) -> None:
    """Plain strings become data; they are write-only."""
    fill(secret, type="Opaque")
    plain = secret.pop("stringData", None)
    if isinstance(plain, dict):
        data = ensure_map(secret, "data")
        data.update({k: base64.b64encode(str(v).encode()).decode() for k, v in plain.items()})


def _claim(claim: Raw) -> None:
    fill(ensure_map(claim, "spec"), volumeMode="Filesystem")
    fill(ensure_map(claim, "status"), phase="Pending")


def _volume_object(volume: Raw) -> None:
    spec = fill(
        ensure_map(volume, "spec"), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"
    )
    if isinstance(spec.get("hostPath"), dict):
        fill(spec["hostPath"], type="")
    fill(ensure_map(volume, "status"), phase="Pending")


def _endpoints(endpoints: Raw) -> None:
    for subset in maps_in(endpoints.get("subsets")):
        for port in maps_in(subset.get("ports")):
            fill(port, protocol="TCP")


def _endpoint_slice(endpoints: Raw) -> None:
    for port in maps_in(endpoints.get("ports")):
        fill(port, protocol="TCP", name="")


def _storage_class(storage: Raw) -> None:
    fill(storage, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _priority_class(priority: Raw) -> None:
    fill(priority, preemptionPolicy="PreemptLowerPriority")


def _binding(binding: Raw) -> None:
    fill(ensure_map(binding, "roleRef"), apiGroup="rbac.authorization.k8s.io")
    if not binding.get("subjects"):
        binding.pop("subjects", None)
    for subject in maps_in(binding.get("subjects")):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup="rbac.authorization.k8s.io")


_RULES: dict[str, Callable[[Raw], None]] = {
    "pods": pod_defaults.complete,
    "services": _service,
    "endpoints": _endpoints,
    "endpointslices.discovery.k8s.io": _endpoint_slice,
    "namespaces": _namespace,
    "secrets": _secret,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume_object,
    "nodes": _node,
    "resourcequotas": _quota,
    "poddisruptionbudgets.policy": _budget,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "jobs.batch": _job,
    "storageclasses.storage.k8s.io": _storage_class,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
}
