"""A replica's template -> the manifests of its pod and its service.

Pure. Called by `decide`. Operator labels beat the template's; everything else of the template stays
as it was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from muster.jobs import names
from muster.operator.build.addresses import HOST_PORT_ANNOTATION, on_host_network

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica, ReplicaSpec
    from muster.operator.build.addresses import Addresses
    from muster.operator.build.gang import Gang


def owner_reference(job: Job) -> Raw:
    """The reference by which a job's objects belong to it; always in the storage version."""
    return {
        "apiVersion": job.job_kind.resource.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def metadata(job: Job, name: str, labels: dict[str, str]) -> Raw:
    """The metadata of any object that belongs to a job."""
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(job)],
    }


def labels(job: Job, replica: Replica) -> dict[str, str]:
    """What a member is found by."""
    return names.labels(job.job_kind.operator, job.name, replica.role, replica.index)


def service_manifest(job: Job, replica: Replica, hosts: Addresses) -> Raw:
    """The headless service that gives a member its stable name, from before it is ready."""
    replica_spec = job.replica_spec(replica.role)
    main = replica_spec.main if replica_spec else {}
    mine = {"name": job.job_kind.port_name, "port": hosts.port(replica.role, replica.index)}
    others = _ports(main.get("ports") or (), mine)
    selector = labels(job, replica)
    meta = metadata(job, replica.name, selector)
    if replica.name in hosts.own_ports:
        meta["annotations"] = {HOST_PORT_ANNOTATION: str(mine["port"])}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [mine, *others],
        },
    }


def _ports(written: Iterable[Raw], mine: Raw) -> list[Raw]:
    """What else the container listens on: each number once per protocol, as services have it."""
    taken = {(mine["port"], "TCP")}
    found: list[Raw] = []
    for port in written:
        number, protocol = port["containerPort"], port.get("protocol") or "TCP"
        if port.get("name") == mine["name"] or (number, protocol) in taken:
            continue
        taken.add((number, protocol))
        plain = f"port-{number}" if protocol == "TCP" else f"port-{number}-{protocol.lower()}"
        row = {"name": port.get("name") or plain, "port": number}
        found.append(row if protocol == "TCP" else {**row, "protocol": protocol})
    return found


def pod_manifest(job: Job, replica: Replica, hosts: Addresses, gang: Gang) -> Raw:
    """The member's pod, still without what its kind adds."""
    replica_spec = job.replica_spec(replica.role)
    assert replica_spec is not None
    template = replica_spec.template.get("metadata") or {}
    own = labels(job, replica)
    if job.leads(replica.role, replica.index):
        own[names.JOB_ROLE] = "master"
    meta = metadata(
        job, replica.name, {**(template.get("labels") or {}), **gang.labels(replica), **own}
    )
    meta["annotations"] = {**(template.get("annotations") or {}), **gang.annotations(replica)}
    if template.get("finalizers"):
        meta["finalizers"] = template["finalizers"]
    spec = {**replica_spec.spec, "restartPolicy": _restart(replica_spec), **gang.pod_spec()}
    if gang.scheduler and not spec.get("schedulerName"):
        spec["schedulerName"] = gang.scheduler
    spec["containers"] = [
        _with_port(job, replica, container, hosts)
        if container["name"] == replica_spec.container
        # A pod's containers are a list of its own, so that kinds may add to them.
        else dict(container)
        for container in replica_spec.spec["containers"]
    ]
    if on_host_network(job, replica, hosts.settings):
        spec["hostNetwork"] = True
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _restart(replica_spec: ReplicaSpec) -> str:
    return "Never" if replica_spec.restart == "ExitCode" else replica_spec.restart


def _with_port(job: Job, replica: Replica, container: Raw, hosts: Addresses) -> Raw:
    number = hosts.port(replica.role, replica.index)
    if not number:
        return dict(container)
    name = job.job_kind.port_name
    ports = [port for port in container.get("ports") or () if port.get("name") != name]
    mine: dict[str, Any] = {"name": name, "containerPort": number}
    if replica.name in hosts.own_ports:
        mine["hostPort"] = number
    return {**container, "ports": [*ports, mine]}


def add_environment(manifest: Raw, container: str, variables: dict[str, str]) -> None:
    """Append variables to a container of a manifest made here; the last one of a name wins."""
    for row in manifest["spec"]["containers"]:
        if row["name"] == container:
            added = [{"name": name, "value": value} for name, value in variables.items()]
            row["env"] = [*(row.get("env") or ()), *added]


def role_of(job: Job, pod: Pod) -> str:
    """The role of a pod of this job, as `job` spells it; empty if it has none."""
    return job.job_kind.role(pod.metadata.labels.get(names.ROLE, "")) or ""


def index_of(pod: Pod) -> int:
    """The number of a pod within its role; -1 if it has none."""
    text = pod.metadata.labels.get(names.INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else -1


def marked_for_deletion(pod: Pod, now: datetime) -> Pod:
    """The pod as it will be when its deletion has been asked for."""
    if pod.metadata.deletion_timestamp is not None:
        return pod
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=now)
    return msgspec.structs.replace(pod, metadata=metadata)
