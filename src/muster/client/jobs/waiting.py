"""Waiting for a job to run, to finish or to be deleted.

A job that ends may be deleted a moment later, by its time to live or by a user. So `JobWatch` does
not sleep between two looks: it watches the job from the version it saw last, and sees the job's end
even if the job no longer exists at the next look. If watching is not possible (not allowed, history
compacted), it reads the job instead.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.errors import MusterError
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.request_errors import ApiError, NotFound, Unreachable
from muster.client import Notify, ignore
from muster.client.jobs import lookup
from muster.client.logs.attempts import attempts_of_job
from muster.client.logs.last_lines import lines_of_failure, with_lines_of_failure
from muster.jobs import parse
from muster.jobs.job_state import RUNNING, SUCCEEDED
from muster.jobs.view.summary import JobSummary, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.kinds import Kind

FINISHED, STARTED = (SUCCEEDED,), (RUNNING, SUCCEEDED)
"""Goals of `wait_for`: the statuses that end the wait well."""
LOOK_SECONDS = 1.0
SETTLE_SECONDS = 8.0
"""Seconds to wait for the other replicas of a job that has succeeded: the operator stops those that
run for five seconds more."""
SHORT_TTL = 60
"""The logs of a job that is deleted this many seconds after its end cannot be read in time."""
NO_LOGS = "Its pods were deleted when it ended, and their logs with them."


class JobFailed(MusterError):
    """The awaited job failed, because of the replica that is named if it is known."""

    cli_exit_code = 10

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        job: str = "",
        replica: str = "",
        exit_code: int | None = None,
        last_lines: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.job = job
        self.replica = replica
        """The name of the pod that failed first; empty if no pod is to blame."""
        self.exit_code = exit_code
        """Of the container that failed; None if none ran to its end."""
        self.last_lines = last_lines
        """The end of its log."""


class WaitTimeout(MusterError, TimeoutError):
    """The awaited state was not reached in time; the job goes on."""


def wait_for(
    watch: JobWatch,
    goal: Collection[str],
    *,
    deadline: float = float("inf"),
    look_seconds: float = LOOK_SECONDS,
    on_look: Callable[[JobSummary], None] = lambda _: None,
    notify: Notify = ignore,
) -> JobSummary:
    """Wait until the job has one of these statuses; JobFailed if it ends otherwise.

    `deadline` is a time of the monotonic clock. A change of the job is seen at once, and a change
    of its pods, which only `on_look` is interested in, after `look_seconds`. An unreachable
    cluster is waited for, and so are the workers of a job that has succeeded: they end a moment
    later, or are stopped.
    """
    settled = float("inf")
    while True:
        try:
            job = watch.look()
        except NotFound as error:
            raise NotFound(f"the job {watch.name} was deleted") from error
        except Unreachable as error:
            if time.monotonic() > deadline:
                raise
            notify(f"waiting for the cluster: {error}")
        else:
            on_look(job)
            if job.status in goal:
                settled = min(settled, time.monotonic() + SETTLE_SECONDS, deadline)
                if goal != FINISHED or not job.settling or time.monotonic() >= settled:
                    return job
            elif job.over:
                raise watch.failure(job)
            elif time.monotonic() > deadline:
                raise WaitTimeout(
                    f"the job {job.name} is still {job.status.lower()}{job.because}",
                    hint=f"`arena explain {job.name}` says more.",
                )
        watch.wait(min(look_seconds, max(0.0, min(deadline, settled) - time.monotonic())))


def logs_command(job: JobSummary) -> str:
    """The command that prints the log of the replica that failed; of the job if none is known."""
    chief = job.chief
    other = job.failed_pod and (chief is None or chief.name != job.failed_pod)
    instance = f" -i {job.failed_pod}" if other else ""
    return f"arena logs {job.name}{instance} -n {job.namespace}"


def wait_until_deleted(
    client: BlockingClient,
    key: Key,
    type_: str = "",
    *,
    uid: str = "",
    deadline: float = float("inf"),
    notify: Notify = ignore,
) -> None:
    """Return when no job has that name, or another job than the one of this UID.

    An unreachable cluster is waited for.
    """
    while True:
        try:
            found = lookup.get_job(client, key, type_)
            if uid and found.uid != uid:
                return
        except NotFound:
            return
        except Unreachable as error:
            if time.monotonic() > deadline:
                raise
            notify(f"waiting for the cluster: {error}")
        else:
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    f"the job {key.name} is still there",
                    hint=f"`arena delete {key.name}` deletes it.",
                )
        time.sleep(LOOK_SECONDS)


class JobWatch:
    """One job, followed from the version that was read."""

    def __init__(self, client: BlockingClient, kind: Kind[Raw], raw: Raw) -> None:
        self._client, self._kind = client, kind
        self._key, self._uid = key_of(raw), raw["metadata"]["uid"]
        self._raw = raw
        self._since = str(raw["metadata"]["resourceVersion"])
        self._deleted = False

    @property
    def name(self) -> str:
        return self._key.name

    def look(self) -> JobSummary:
        """The job now, or at its end; NotFound if it was deleted before its end."""
        # The last version of a deleted job tells whether the job ended before.
        if self._deleted and not summarize(self._raw, []).over:
            raise NotFound(f"the job {self._key.name} was deleted")
        pods = lookup.labelled_pods(self._client, self._key)
        job = summarize(self._raw, pods, datetime.now(UTC))
        return replace(job, settling=False) if self._deleted else job

    def failure(self, job: JobSummary) -> JobFailed:
        """The error of the failed job, with the end of the log of the replica that failed."""
        job = with_lines_of_failure(self._client, job)
        logs = f"See: {logs_command(job)}" if self.keeps_logs(job) else NO_LOGS
        return JobFailed(
            f"the job {job.name} failed{job.cause}",
            hint="\n".join(filter(None, [logs, job.remedy])),
            job=job.name,
            replica=job.failed_pod,
            exit_code=job.ending.exit_code if job.ending is not None else None,
            last_lines=lines_of_failure(self._client, job),
        )

    def keeps_logs(self, job: JobSummary) -> bool:
        """Whether logs of the ended job still exist: its pods, or the job, may be deleted.

        A pod that ran to its end stays unless the policy deletes all. A launcher that belongs to a
        batch Job always stays. The local cluster keeps the logs of deleted pods.
        """
        parsed = parse.parse_valid(self._raw)
        if parsed is None:
            return False
        policy = parsed.policy
        if self._deleted or (policy.ttl_seconds is not None and policy.ttl_seconds < SHORT_TTL):
            return False
        ended = {row.role.lower() for row in job.instances if row.phase in ("Succeeded", "Failed")}
        if policy.clean_pod_policy == "All":
            stays = parsed.mpi is not None and parsed.mpi.launcher_is_job
            ended &= {"launcher"} if stays else set()
        if ended:
            return True
        return bool(attempts_of_job(self._client, self._key, self._uid))

    def wait(self, seconds: float) -> None:
        """Wait until the job changes, for about that time at most."""
        pause = min(seconds, LOOK_SECONDS)
        if self._deleted:
            time.sleep(pause)
            return
        try:
            self._watch(max(1, math.ceil(seconds)))
        except Unreachable:
            time.sleep(pause)
        except ApiError:  # no right to watch, or the version is too old
            time.sleep(pause)
            self._look_up()

    def _watch(self, seconds: int) -> None:
        events = self._client.watch(
            self._kind,
            self._key.namespace,
            since=self._since,
            seconds=seconds,
            fields=f"metadata.name={self._key.name}",
        )
        with closing(events):
            for event in events:
                self._since = str(event.object["metadata"]["resourceVersion"])
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    self._update(event.object)
                    self._deleted = self._deleted or event.type == "DELETED"
                    return

    def _update(self, raw: Raw) -> None:
        """Ignore another job of the same name, and changes after the deletion."""
        if raw["metadata"]["uid"] == self._uid and not self._deleted:
            self._raw = {"kind": self._kind.kind, **raw}

    def _look_up(self) -> None:
        try:
            raw = self._client.get(self._kind, self._key)
        except NotFound:
            self._deleted = True
        except MusterError:
            return  # the next look raises it
        else:
            self._since = str(raw["metadata"]["resourceVersion"])
            self._deleted = raw["metadata"]["uid"] != self._uid
            self._update(raw)
