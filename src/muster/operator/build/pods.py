"""A replica's template -> the manifest of its pod.

The operator's labels win over the template's; everything else stays as the template has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.jobs import names
from muster.operator.build.host_ports import on_host_network
from muster.operator.build.labels import metadata, replica_labels

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica, ReplicaSpec
    from muster.operator.build.addresses import Addresses
    from muster.operator.build.gang import Gang


def pod_manifest(job: Job, replica: Replica, hosts: Addresses, gang: Gang) -> Raw:
    """The replica's pod, still without what its framework adds."""
    replica_spec = job.replica_spec(replica.role)
    assert replica_spec is not None
    template = replica_spec.template.get("metadata") or {}
    own, marks = replica_labels(job, replica), gang.marks(replica)
    if job.leads(replica.role, replica.index):
        own[names.JOB_ROLE] = "master"
    labels = {**(template.get("labels") or {}), **marks.labels, **own}
    meta = metadata(job, replica.name, labels)
    meta["annotations"] = {**(template.get("annotations") or {}), **marks.annotations}
    if template.get("finalizers"):
        meta["finalizers"] = template["finalizers"]
    spec = {
        **replica_spec.spec,
        "restartPolicy": _restart_policy(replica_spec),
        **marks.spec,
    }
    if gang.scheduler and not spec.get("schedulerName"):
        spec["schedulerName"] = gang.scheduler
    spec["containers"] = [
        _with_port(job, replica, container, hosts)
        if container["name"] == replica_spec.container
        # A copy, so that frameworks may add to it.
        else dict(container)
        for container in replica_spec.spec["containers"]
    ]
    if on_host_network(job, replica, hosts.settings):
        spec["hostNetwork"] = True
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _restart_policy(replica_spec: ReplicaSpec) -> str:
    return "Never" if replica_spec.restart == "ExitCode" else replica_spec.restart


def _with_port(job: Job, replica: Replica, container: Raw, hosts: Addresses) -> Raw:
    number = hosts.port(replica.role, replica.index)
    if not number:
        return dict(container)
    name = job.job_kind.port_name
    ports = [port for port in container.get("ports") or () if port.get("name") != name]
    own_port: dict[str, Any] = {"name": name, "containerPort": number}
    if replica.name in hosts.host_ports:
        own_port["hostPort"] = number
    return {**container, "ports": [*ports, own_port]}


def add_environment(manifest: Raw, container: str, variables: dict[str, str]) -> None:
    """Append variables to a container of a new manifest; the last one of a name wins."""
    for row in manifest["spec"]["containers"]:
        if row["name"] == container:
            added = [{"name": name, "value": value} for name, value in variables.items()]
            row["env"] = [*(row.get("env") or ()), *added]
