"""The manifest of a replica's pod, from its template.

The operator's labels replace those of the template; all other fields stay as they are there. Where
the template of the training container does not say it, the end of its log is its termination
message: so the reason of a failed job shows the program's last lines.

A node restarts a container that failed for the first time at once, before the operator sees the
failure. If that failure is the last one that backoffLimit allows, the next attempt must not start.
So the pod gets the policy Never: it fails, and the operator fails the job. After later failures the
node waits for ten seconds or more, and the operator ends the job in that time.

Replicas that restart together get the policy Never too: the operator replaces all of them, after it
has seen which one failed first, and counts that once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.objects.kinds import PODS
from muster.contract.exported_models import MODEL_DIR
from muster.jobs import names
from muster.operator.build.host_ports import on_host_network
from muster.operator.build.labels import owned_manifest, replica_labels

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica, ReplicaSpec
    from muster.jobs.job_status import JobStatus
    from muster.operator.build.addresses import Addresses
    from muster.operator.build.gang import Gang


def pod_manifest(job: Job, replica: Replica, hosts: Addresses, gang: Gang) -> Raw:
    """The replica's pod, before its framework adds to it."""
    replica_spec = job.replica_spec(replica.role)
    assert replica_spec is not None
    template = replica_spec.template.get("metadata") or {}
    own, marks = replica_labels(job, replica), gang.marks(replica)
    if job.leads(replica.role, replica.index):
        own[names.JOB_ROLE] = "master"
    # Our own labels come last: informers and services select pods by them.
    labels = {**(template.get("labels") or {}), **marks.labels, **own}
    manifest = owned_manifest(job, PODS, replica.name, labels)
    meta: Raw = manifest["metadata"]
    annotations = {**(template.get("annotations") or {}), **marks.annotations}
    if directory := job.annotations.get(MODEL_DIR):  # the node looks for it on pods
        annotations.setdefault(MODEL_DIR, directory)
    meta["annotations"] = annotations
    if template.get("finalizers"):
        meta["finalizers"] = template["finalizers"]
    restart = pod_restart_policy(job, replica_spec)
    spec = {**replica_spec.spec, "restartPolicy": restart, **marks.spec}
    # Replicas of one role share a template, so only the operator can give one of them more rights.
    account = job.annotations.get(names.RANK_0_ACCOUNT)
    if account and job.is_rank_0(replica.role, replica.index):
        spec.pop("serviceAccount", None)
        spec |= {"serviceAccountName": account, "automountServiceAccountToken": True}
    # A claim of devices is allocated by the cluster's own scheduler; Muster's would refuse the pod.
    left = gang.dialect == "none" and spec.get("resourceClaims")
    if gang.scheduler and not spec.get("schedulerName") and not left:
        spec["schedulerName"] = gang.scheduler
    # Quotas and admission look at pods: a class that only the group names would pass them by.
    if gang.priority_class and not spec.get("priorityClassName") and spec.get("priority") is None:
        spec["priorityClassName"] = gang.priority_class
    spec["containers"] = [
        _training_container(job, replica, container, hosts)
        if container["name"] == replica_spec.container
        # A copy, because frameworks add to it and the template is shared by all replicas.
        else dict(container)
        for container in replica_spec.spec["containers"]
    ]
    if on_host_network(job, replica, hosts.settings):
        spec["hostNetwork"] = True
        # With the default policy it would use the node's resolver, which knows no services.
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    return {**manifest, "spec": spec}


def _training_container(job: Job, replica: Replica, container: Raw, hosts: Addresses) -> Raw:
    # Without it, the reason of a failure is "exited with code 1" and no line of the program.
    container = {"terminationMessagePolicy": "FallbackToLogsOnError", **container}
    number = hosts.port(replica.role, replica.index)
    if not number:
        return container
    name = job.job_kind.port_name
    ports = [port for port in container.get("ports") or () if port.get("name") != name]
    own_port: dict[str, Any] = {"name": name, "containerPort": number}
    if replica.name in hosts.host_ports:
        # A host port keeps the scheduler from placing another pod with this port on the node.
        own_port["hostPort"] = number
    return {**container, "ports": [*ports, own_port]}


def main_container(manifest: Raw, replica: Replica, job: Job) -> Raw:
    """The container of a new manifest that trains."""
    replica_spec = job.replica_spec(replica.role)
    assert replica_spec is not None
    containers: list[Raw] = manifest["spec"]["containers"]
    return next(row for row in containers if row["name"] == replica_spec.container)


WITHOUT_PRIVILEGES: Raw = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""Of the operator's own containers, which must not keep a pod out of a restricted namespace."""


def append(owner: Raw, field: str, *items: Raw) -> None:
    """Append to a list of a new manifest. The list may be the template's, so it is replaced."""
    owner[field] = [*(owner.get(field) or ()), *items]


def add_environment(container: Raw, variables: dict[str, str]) -> None:
    """Append variables to a container of a new manifest; the last one of a name wins."""
    append(container, "env", *({"name": name, "value": v} for name, v in variables.items()))


def restarts_left(job: Job, status: JobStatus) -> int | None:
    """How many restarts remain until the job fails; 0 or less: none. None without a limit.

    In training-operator the restart that reaches the limit fails the job, and a limit of 0 allows
    none, as 1 does. A batch Job, such as mpi-operator's launcher, may restart as often as its limit
    says; so may a launcher that is not restarted in place, which training-operator never retries.
    """
    limit = job.policy.backoff_limit
    if limit is None:
        return None
    return (limit + 1 if _retries_as_batch_job(job) else max(limit, 1)) - status.restarts


def _retries_as_batch_job(job: Job) -> bool:
    launcher = job.replica_spec("Launcher")
    if job.mpi is None or launcher is None:
        return False
    return job.mpi.launcher_is_job or launcher.restart == "Never"


def pod_restart_policy(job: Job, replica_spec: ReplicaSpec) -> str:
    """The restartPolicy of a new pod."""
    policy = replica_spec.restart
    if policy == "ExitCode":
        return "Never"  # Muster itself decides about exit codes
    # A pod with several containers fails only when all have ended, which may be much later.
    if policy != "OnFailure" or len(replica_spec.spec["containers"]) > 1:
        return policy
    left = restarts_left(job, job.status)
    is_last = left is not None and left <= 1
    return "Never" if is_last or replica_spec.role in job.restarts_together else policy
