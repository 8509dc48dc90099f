"""Waiting for a job's end: a line about how it goes, and its result as an exit code.

Used by `submit --wait|--watch` and whoever else waits. On a terminal one line is drawn over; in a
pipe a line follows when something has changed. Promise: returns when the job has succeeded, raises
JobFailed when it has failed, and NotFound when it was deleted meanwhile.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.cli.show.messages import note, printable
from muster.cli.show.units import duration
from muster.errors import JobFailed, MusterError, NotFound, Unreachable
from muster.jobs.summary import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from muster.jobs.summary import JobSummary

EVERY = 1.0
NO_LOGS = "Its instances were cleaned up at its end, and their logs with them."


def until_finished(
    look: Callable[[], JobSummary],
    *,
    instances: bool = False,
    timeout: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    keeps_logs: Callable[[JobSummary], bool] = lambda job: bool(job.instances),
) -> JobSummary:
    """Look again and again until the job is finished; `instances` tells of each pod as well.

    Who is told of a failure is sent to the logs only if the job keeps them.
    """
    begun = time.monotonic()
    seen: dict[str, str] = {}
    with StatusLine() as line:
        while True:
            job = _patient(look, line)
            if job is not None:
                if instances:
                    _tell_instances(job, seen, line)
                line.show(summary(job), running_time(job))
                if job.over:
                    line.end()
                    return _result(job, logs=keeps_logs(job))
            if timeout is not None and time.monotonic() - begun > timeout:
                line.end()
                raise MusterError(f"not finished after {duration(timeout)}", hint="It goes on.")
            sleep(EVERY)


def summary(job: JobSummary) -> str:
    """How a job is, in one line without the passing of time."""
    count = len(job.instances)
    phases = [instance.phase for instance in job.instances]
    parts = [f"{phases.count(phase)} {phase.lower()}" for phase in dict.fromkeys(phases)]
    pods = f" ({', '.join(parts)} of {count})" if count else ""
    return f"{job.name} {job.status}{pods}{job.because}"


def running_time(job: JobSummary) -> str:
    """How long it has run or waited."""
    return duration(job.duration(datetime.now(UTC)).total_seconds())


def _result(job: JobSummary, *, logs: bool) -> JobSummary:
    if job.status == FAILED:
        see = f"See: arena logs {job.name} -n {job.namespace}"
        raise JobFailed(f"the job {job.name} failed{job.because}", hint=see if logs else NO_LOGS)
    return job


def _patient(look: Callable[[], JobSummary], line: StatusLine) -> JobSummary | None:
    try:
        return look()
    except NotFound as error:
        line.end()
        raise NotFound("the job was deleted meanwhile", status=404) from error
    except Unreachable as error:
        line.show(f"waiting for the cluster: {error}", "")
        return None


def _tell_instances(job: JobSummary, seen: dict[str, str], line: StatusLine) -> None:
    for instance in job.instances:
        where = f" on {instance.node}" if instance.node else ""
        now = f"{instance.status}{where}"
        if seen.get(instance.name) != now:
            seen[instance.name] = now
            line.above(f"{instance.name} {now}")


class StatusLine:
    """The last line of stderr, drawn over on a terminal."""

    def __init__(self) -> None:
        self.is_drawn = sys.stderr.isatty()
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            note("no longer waiting; the job goes on")

    def show(self, text: str, timing: str) -> None:
        if self.is_drawn:
            import shutil  # brings compression along, which a command in a pipe does not need

            width = shutil.get_terminal_size().columns - 1
            drawn = printable(f"{timing} {text}".strip()).replace("\n", " ")[:width]
            print(f"\r{drawn}\x1b[K", end="", file=sys.stderr, flush=True)
        elif text != self._last:
            note(text)
        self._last = text

    def above(self, text: str) -> None:
        """A line that stays, above the one that is drawn over."""
        if self.is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr)
        note(text)

    def end(self) -> None:
        if self.is_drawn and self._last:
            print(file=sys.stderr)
        self._last = ""
