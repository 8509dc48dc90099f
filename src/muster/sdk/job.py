"""A job on a cluster, as an object: look at it, read its logs, wait for it, change it.

A `Job` remembers the UID of its job: it never acts on another job that got the same name later.
Every method asks the cluster; only `repr` and the notebook view use what the last one saw.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack

from kubekit.errors import MusterError, UsageError
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.request_errors import NotFound
from muster.client.jobs import explain as explaining, job_operations, waiting
from muster.client.jobs.lookup import FoundJob
from muster.client.logs import job_logs
from muster.client.logs.log_choice import WantedLogs, find_logs
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.sdk import note, warn
from muster.sdk.arguments import Duration, LogArguments, log_options, seconds_of
from muster.sdk.cluster_choice import connector
from muster.sdk.notebook.curves import Curves, read_curves
from muster.sdk.notebook.job_table import JobTable
from muster.sdk.notebook.live import LiveOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.kinds import Kind
    from muster.client.target import Cluster
    from muster.contract.job_explanation import JobExplanation
    from muster.jobs.view.summary import JobSummary


Goal = Literal["finished", "running", "deleted"]
_GOALS = {"finished": waiting.FINISHED, "running": waiting.STARTED}
_LOOK_SECONDS = 15.0
"""The watch reports every change of the job; a look is only for a change that the watch missed."""


class JobIdentity:
    """The kind, namespace, name and UID of a job. Objects for the same job are equal."""

    def __init__(self, kind: str, key: Key, uid: str) -> None:
        self._kind, self._key, self._uid = kind, key, uid

    @property
    def name(self) -> str:
        """The name of the job."""
        return self._key.name

    @property
    def namespace(self) -> str:
        """The namespace of the job."""
        return self._key.namespace

    @property
    def kind(self) -> str:
        """`PyTorchJob`, `TFJob`, `MPIJob` or `JAXJob`."""
        return self._kind

    @property
    def uid(self) -> str:
        """The UID that the cluster gave to the job."""
        return self._uid

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[str, Key, str]:
        return self._kind, self._key, self._uid


class Job(JobIdentity):
    """A training job on a cluster; made by `submit`, `get_job` and `list_jobs`."""

    def __init__(self, cluster: Cluster, kind: Kind[Raw], raw: Raw) -> None:
        super().__init__(kind.kind, key_of(raw), str(raw["metadata"]["uid"]))
        self._cluster, self._resource = cluster, kind
        self._last: JobSummary | None = None

    @classmethod
    def of_summary(cls, cluster: Cluster, summary: JobSummary) -> Job:
        """The job of a list."""
        key, kind = summary.key, JOB_KIND_BY_NAME[summary.kind].resource
        metadata = {"name": key.name, "namespace": key.namespace, "uid": summary.uid}
        job = cls(cluster, kind, {"metadata": metadata})
        job._last = summary
        return job

    def __repr__(self) -> str:
        state = f" {self._last.status}" if self._last is not None else ""
        return f"<Job {self.kind.lower()}/{self.name} in {self.namespace}{state}>"

    def summary(self) -> JobSummary:
        """The job now, as `arena get` shows it: status, replicas, times, the reason if it waits.

        >>> job = muster.submit("tf", "echo hello", name="doc-summary", workers=2).wait()
        >>> [replica.name for replica in job.summary().instances]
        ['doc-summary-worker-0', 'doc-summary-worker-1']
        """
        with self._connect() as client:
            found = self._found(client)
            self._last = found.summary(found.pods(client))
        return self._last

    def status(self) -> str:
        """PENDING, RUNNING, RESTARTING, SUSPENDED, SUCCEEDED or FAILED.

        >>> muster.submit("tf", "true", name="doc-status").wait().status()
        'SUCCEEDED'
        """
        return self.summary().status

    def manifest(self) -> Raw:
        """The job as the cluster has it.

        >>> job = muster.submit("tf", "true", name="doc-manifest")
        >>> job.manifest()["metadata"]["name"]
        'doc-manifest'
        """
        with self._connect() as client:
            return self._found(client).raw

    def logs(
        self,
        *,
        follow: bool = False,
        replica: str = "",
        all_replicas: bool = False,
        **choice: Unpack[LogArguments],
    ) -> Iterator[str]:
        """The lines of the job's log, or with `follow` also those to come, until the job ends.

        The log is that of the chief (worker 0, the master, the launcher). `replica` is another
        one (`worker-1`, `1` or its pod); with `all_replicas` every line begins with its pod.

        >>> job = muster.submit("tf", "echo hello; echo goodbye", name="doc-logs")
        >>> list(job.logs(follow=True))
        ['hello', 'goodbye']
        """
        if replica and all_replicas:
            raise UsageError("replica= and all_replicas= cannot be used together")
        wanted = WantedLogs(log_options(choice, follow=follow), replica, all_replicas)
        return self._lines(wanted, connector(self._cluster))

    def _lines(self, wanted: WantedLogs, connect: Callable[[], BlockingClient]) -> Iterator[str]:
        with connect() as client:
            self._found(client)  # not the log of another job with the same name
            logs = find_logs(client, self._key, self.kind, wanted, note)
            if wanted.everyone:
                chunks = job_logs.read_all(connect, logs, wanted.options, note, warn)
            else:
                chunks = job_logs.read_one(client, logs, wanted.options, note)
            for pod, lines in job_logs.whole_lines(chunks):
                start = f"{pod.name} | " if wanted.everyone else ""
                for line in lines:
                    yield start + line.decode(errors="replace").removesuffix("\r")

    def wait(self, timeout: Duration | None = None, *, until: Goal = "finished") -> Job:
        """Return when the job has succeeded, runs, or is deleted.

        A job that fails raises `JobFailed`, with the replica, its exit code and its last lines.
        After `timeout` (`"2h"`, `"10m"`, seconds, a timedelta) `WaitTimeout` is raised. Ctrl-C ends
        the waiting, and the job goes on.

        >>> job = muster.submit("pytorch", "echo no data >&2; exit 3", name="doc-wait")
        >>> try:
        ...     job.wait(timeout="1m")
        ... except muster.JobFailed as error:
        ...     print(error.replica, error.exit_code, error.last_lines)
        doc-wait-master-0 3 ('no data',)
        """
        deadline = time.monotonic() + seconds_of("timeout", timeout)
        if until not in (*_GOALS, "deleted"):
            raise UsageError(f"until={until!r} is not a goal", hint="finished, running or deleted.")
        with self._connect() as client:
            if until == "deleted":
                waiting.wait_until_deleted(
                    client, self._key, self.kind, uid=self.uid, deadline=deadline, notify=note
                )
                return self
            watch = waiting.JobWatch(client, self._resource, self._found(client).raw)
            output = LiveOutput(self.uid)
            waiting.wait_for(
                watch,
                _GOALS[until],
                deadline=deadline,
                look_seconds=waiting.LOOK_SECONDS if output.enabled else _LOOK_SECONDS,
                on_look=self._show_in(output),
                notify=note,
            )
        return self

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for a job of `muster.run` and return what its rank 0 returned.

        An exception of rank 0 is raised here, with the remote traceback as its cause. If another
        replica failed first, `JobFailed` is raised. A result that the job did not write itself
        raises `UntrustedResult` and is never loaded. After `timeout` `WaitTimeout` is raised.

        >>> job = muster.run(lambda: 1 / 0, kind="jax", name="doc-result")
        >>> try:
        ...     job.result(timeout="2m")
        ... except ZeroDivisionError as error:
        ...     print(error)
        division by zero
        """
        from muster.sdk.functions.result import result_of  # only jobs of functions need it

        return result_of(self, self._connect, self._cluster.home, timeout)

    def _show_in(self, output: LiveOutput) -> Callable[[JobSummary], None]:
        """A function that remembers the job as it was seen, and shows it in a notebook."""

        def show(summary: JobSummary) -> None:
            self._last = summary
            if output.enabled:
                output.show(JobTable(summary, datetime.now(UTC)))

        return show

    def _repr_html_(self) -> str:
        return JobTable(self.summary(), datetime.now(UTC))._repr_html_()

    def _ipython_display_(self) -> None:
        """In a notebook: a table that changes until the job has ended."""
        output = LiveOutput(self.uid)
        if output.is_repeated:
            return  # `job.wait()` is the last line of the cell, and has shown it
        show = self._show_in(output)
        if not output.enabled:
            print(self)  # noqa: T201 - the terminal of IPython
            return
        try:
            show(self.summary())
        except MusterError as error:  # the job or its cluster is gone
            print(f"{self}: {error}")  # noqa: T201 - the output of the cell
            return

        def follow() -> None:
            with suppress(MusterError), self._connect() as client:
                watch = waiting.JobWatch(client, self._resource, self._found(client).raw)
                waiting.wait_for(watch, waiting.FINISHED, on_look=show)

        if self._last is not None and not self._last.over:
            threading.Thread(target=follow, name=f"muster-{self.name}", daemon=True).start()

    def curves(self, *names: str, follow: bool = False) -> Curves:
        """The curves that the log's numbers make: `step=10 loss=0.25`, one point for each line.

        A notebook draws them; with `follow` they grow until the job ends.

        >>> command = "for i in 1 2 3; do echo step=$i loss=0.$i; done"
        >>> job = muster.submit("tf", command, name="doc-curves")
        >>> job.wait().curves("loss")
        loss: 0.1 → 0.3 (3 points)
        """
        lines = self.logs(follow=follow)
        return read_curves(lines, names, subject=f"{self.uid}/curves", live=follow)

    def explain(self) -> JobExplanation:
        """Whether the job runs, and if not, why, and its place in line.

        >>> job = muster.submit("tf", "true", name="doc-explain", gpus=99)
        >>> explanation = job.explain()
        >>> explanation.state
        'waiting'
        """
        with self._connect() as client:
            self._found(client)
            return explaining.explain(client, self._key, self.kind, datetime.now(UTC), note)

    def scale(self, workers: int | None = None, *, ps: int | None = None) -> None:
        """Change the number of workers or parameter servers.

        >>> job = muster.submit("pytorch", "sleep 60", name="doc-scale", workers=2)
        >>> job.scale(3)
        >>> job.summary().replicas
        3
        """
        counts = {role: n for role, n in (("worker", workers), ("ps", ps)) if n is not None}
        if not counts:
            raise UsageError("no number is given: write scale(workers=N) or scale(ps=N)")
        for count in counts.values():
            if not isinstance(count, int):
                raise UsageError(f"scale() got {count!r}; write a whole number")
        if any(count < 0 for count in counts.values()) or workers == 0:
            raise UsageError("workers must be greater than 0", hint="suspend() stops all of them.")
        with self._connect() as client:
            job_operations.scale(client, self._found(client), counts)

    def suspend(self) -> None:
        """Stop the replicas and keep the job; `resume` starts it again.

        >>> job = muster.submit("tf", "sleep 60", name="doc-suspend")
        >>> job.suspend()
        >>> job.manifest()["spec"]["runPolicy"]["suspend"]
        True
        """
        self._set_suspended(True)

    def resume(self) -> None:
        """Start a suspended job again.

        >>> job = muster.submit("tf", "true", name="doc-resume")
        >>> job.suspend()
        >>> job.resume()
        >>> job.wait().status()
        'SUCCEEDED'
        """
        self._set_suspended(False)

    def _set_suspended(self, suspend: bool) -> None:
        with self._connect() as client:
            job_operations.set_suspended(client, self._found(client), suspend=suspend)

    def delete(self) -> None:
        """Delete the job, its pods and its logs. Does nothing if the job is gone already.

        >>> job = muster.submit("tf", "sleep 60", name="doc-delete")
        >>> job.delete()
        """
        with self._connect() as client:
            job_operations.delete_found(client, self._resource, self._key, self.uid)

    def _connect(self) -> BlockingClient:
        return connector(self._cluster)()

    def _found(self, client: BlockingClient) -> FoundJob:
        """The job as it is now; NotFound if it was deleted, even if a new one has its name."""
        raw = client.find(self._resource, self._key)
        if raw is None or raw["metadata"]["uid"] != self.uid:
            raise NotFound(f"the job {self.name} was deleted")
        return FoundJob(self._resource, {"kind": self.kind, **raw})
