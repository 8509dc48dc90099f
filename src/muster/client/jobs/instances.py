"""Choosing an instance (a pod) of a job, and waiting until it exists."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import PODS
from kubekit.request_errors import NotFound
from muster.client import Notify, ignore
from muster.client.jobs import lookup

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod
    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary

POLL_SECONDS = 0.3
KEEP_PODS = "`arena submit … --clean-task-policy=None` keeps a job's pods and their logs."


class WaitNotice:
    """Reports the goal of a wait and why it is not reached, once per reason."""

    def __init__(self, goal: str, notify: Notify) -> None:
        self._goal, self._notify = goal, notify
        self._reason: str | None = None

    def because(self, reason: str) -> None:
        if self._reason is None or (reason and reason != self._reason):
            self._notify(f"waiting for {self._goal}{f': {reason}' if reason else ' …'}")
            self._reason = reason


def find_instance(job: JobSummary, name: str) -> Instance | None:
    """The instance of that name, or of `worker-2` or `2`: among several of an index, the worker."""
    name = name.lower()
    by_name = [row for row in job.instances if row.name == name]
    by_role = [row for row in job.instances if f"{row.role}-{row.index}".lower() == name]
    by_index = [row for row in job.instances if str(row.index) == name]
    workers = [row for row in by_index if row.role.lower() == "worker"]
    for rows in (by_name, by_role, workers, by_index):
        if len({(row.role, row.index) for row in rows}) == 1:
            return rows[-1]
    return None


def named_instance(job: JobSummary, name: str) -> Instance:
    """The instance that is meant by the name."""
    if instance := find_instance(job, name):
        return instance
    replicas = [row.name for row in job.instances]
    listed = f"Its only replica is {replicas[0]}." if len(replicas) == 1 else ""
    raise NotFound(
        f"the job {job.name} has no replica {name}",
        hint=listed or f"`arena get {job.name}` lists its replicas.",
    )


def instance_to_enter(job: JobSummary, name: str = "") -> Instance:
    """The instance of that name; without a name the chief, else the first instance."""
    if not job.instances:
        raise MusterError(
            f"the job {job.name} has no replicas",
            hint=f"`arena get {job.name}` says why.",
        )
    return named_instance(job, name) if name else job.chief or job.instances[0]


def container_to_enter(client: BlockingClient, pod: Pod, name: str = "") -> str:
    """The container of that name; without a name the first container."""
    if not name:
        return pod.spec.containers[0].name
    spec = client.get(PODS.read_as(dict), pod.metadata.key)["spec"]
    fields = ("containers", "initContainers", "ephemeralContainers")
    names = [container["name"] for field in fields for container in spec.get(field) or ()]
    if name not in names:
        raise NotFound(
            f"{pod.metadata.name} has no container {name}",
            hint=f"Its containers: {', '.join(names)}.",
        )
    return name


def instance_to_read(
    client: BlockingClient, job: JobSummary, *, follow: bool, notify: Notify = ignore
) -> Instance:
    """The instance whose log is the job's: the chief, or the only one there is."""
    job = wait_for_instances(client, job, follow=follow, notify=notify)
    job = wait_for_chief(client, job, follow=follow, notify=notify)
    # While waiting for the chief the job may have ended and lost its pods.
    job = wait_for_instances(client, job, follow=follow, notify=notify)
    if job.chief is not None:
        return job.chief
    if job.over and job.lead:
        # Pods that do not exist for long any more are not offered instead.
        raise MusterError(
            f"the job {job.name} has {job.status.lower()}; its {job.lead} has no pod{job.because}",
            hint=KEEP_PODS,
        )
    if len(job.instances) == 1:
        return job.instances[0]
    names = "\n".join(instance.name for instance in job.instances)
    raise UsageError(
        f"the job {job.name} has {len(job.instances)} replicas and no chief",
        hint=f"-i reads one of them, --all reads all:\n{names}",
    )


def wait_for_instances(
    client: BlockingClient, job: JobSummary, *, follow: bool, notify: Notify = ignore
) -> JobSummary:
    """The job once it has pods; an error if it will never have any, or without `follow`."""
    notice = WaitNotice(f"the pods of {job.name}", notify)
    while not job.instances:
        if job.over:
            raise MusterError(
                f"the job {job.name} has {job.status.lower()} and has no pods{job.because}",
                hint=KEEP_PODS if any(job.ended) else "",
            )
        if not follow:
            raise MusterError(
                f"the job {job.name} has no replicas yet{job.because}",
                hint=f"`arena logs -f {job.name}` waits.",
            )
        job = _look_again(client, job, notice)
    return job


def wait_for_chief(
    client: BlockingClient, job: JobSummary, *, follow: bool, notify: Notify = ignore
) -> JobSummary:
    """The job once its chief exists; unchanged if it has no chief or has ended."""
    notice = WaitNotice(f"the {job.lead} of {job.name}", notify)
    while job.lead and job.chief is None and not job.over:
        if not follow:
            names = ", ".join(instance.name for instance in job.instances)
            raise MusterError(
                f"the {job.lead} of {job.name} is not there yet{job.because}",
                hint=f"`arena logs -f {job.name}` waits for it; -i reads another replica: {names}",
            )
        job = _look_again(client, job, notice)
    return job


def _look_again(client: BlockingClient, job: JobSummary, notice: WaitNotice) -> JobSummary:
    notice.because(job.reason)
    time.sleep(POLL_SECONDS)
    return lookup.get_summary(client, job.key, job.trainer)
