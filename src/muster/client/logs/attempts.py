"""Logs that outlive their pods: the attempts at a job's containers that the local cluster keeps.

Other clusters do not serve PodLogs: there, no attempt is known, and only existing pods have logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kubekit.objects.core import Pod, PodLog, PodStatus
from kubekit.objects.kinds import POD_LOGS
from kubekit.objects.meta import Key, timestamp
from kubekit.request_errors import Forbidden, NotFound
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.jobs.job_status import FailedAttempt


class LogSource(NamedTuple):
    """Where a log is read: from a pod, or from an attempt that the cluster keeps."""

    pod: Key
    attempt: PodLog | None = None
    """None for the pod itself."""
    number: int = 0
    """The place of the attempt among all attempts at the container; 1 is the first."""
    attempts: int = 0
    """How many attempts there were."""
    previous: bool = False
    """Whether the attempt before the pod's last restart is read."""

    @property
    def header(self) -> str:
        """Which attempt it is, in a sentence; empty for the only one and for a pod itself."""
        if self.attempt is None or self.attempts < 2:
            return ""
        finished, code = self.attempt.finished_at, self.attempt.exit_code
        ending = f", ended {timestamp(finished)} with exit code {code}" if finished else ""
        return f"{self.pod.name}: attempt {self.number} of {self.attempts}{ending}"


def announcement(pod: str, number: int) -> str:
    """The line between two attempts in a log that is followed; 1 is the first."""
    return f"-- {pod}: attempt {number} --"


def attempts_of_job(client: BlockingClient, job: Key, uid: str) -> list[PodLog]:
    """All attempts at containers of the job's pods, the oldest first."""
    logs = _list(client, job.namespace, labels=f"{names.JOB}={job.name}")
    return [log for log in logs if any(o.uid == uid for o in log.metadata.owner_references)]


def attempts_of_pod(client: BlockingClient, pod: Key) -> list[PodLog]:
    """All attempts at containers of pods of that name, the oldest first."""
    return _list(client, pod.namespace, fields=f"podName={pod.name}")


def _list(
    client: BlockingClient, namespace: str, *, labels: str = "", fields: str = ""
) -> list[PodLog]:
    try:
        return client.list(POD_LOGS, namespace, labels=labels, fields=fields).items
    except (NotFound, Forbidden):
        return []


def at_container(attempts: Sequence[PodLog], pod: str, container: str = "") -> list[PodLog]:
    """The attempts at one container of a pod; by default its main container.

    If only init containers have run, it is the last of them.
    """
    rows = [log for log in attempts if log.pod_name == pod]
    if not container:
        # The first container started may be another one than the first in the pod.
        main = [log.container for log in sorted(rows, key=lambda log: not log.main) if not log.init]
        container = (main or [log.container for log in rows[-1:]] or [""])[0]
    return [log for log in rows if log.container == container]


def last_attempt(attempts: Sequence[PodLog], pod: Key, container: str = "") -> LogSource | None:
    """The last attempt at a container of a pod, if any is kept."""
    rows = at_container(attempts, pod.name, container)
    return LogSource(pod, rows[-1], len(rows), len(rows)) if rows else None


def attempts_after(
    attempts: Sequence[PodLog], pod: Key, uid: str, container: str = ""
) -> list[tuple[int, LogSource]]:
    """The attempts after those in the pod with this UID, if it has any, with their numbers."""
    rows = list(enumerate(at_container(attempts, pod.name, container), 1))
    last = max((number for number, row in rows if row.pod_uid == uid), default=len(rows))
    return [(number, LogSource(pod, row)) for number, row in rows[last:]]


def attempt_that_failed(attempts: Sequence[PodLog], failed: FailedAttempt) -> LogSource | None:
    """The attempt whose failure ended the job, if it is kept."""
    rows = at_container(attempts, failed.pod_name, failed.container)
    for number, row in enumerate(rows, 1):
        if (row.pod_uid, row.attempt) == (failed.pod_uid, failed.attempt):
            pod = Key(row.metadata.namespace, failed.pod_name)
            return LogSource(pod, row, number, len(rows))
    return None


def pods_that_are_gone(attempts: Sequence[PodLog], existing: Collection[str]) -> list[Pod]:
    """The pods of the job that no longer exist, as far as their logs tell about them."""
    last = {log.pod_name: log for log in attempts if log.pod_name not in existing}
    return [
        Pod(
            metadata=replace(log.metadata, name=log.pod_name, uid=log.pod_uid),
            status=PodStatus(phase="Failed" if log.exit_code else "Succeeded"),
        )
        for log in last.values()
    ]
