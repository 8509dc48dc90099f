"""The status line of a job that a command waits for.

On a terminal one line is redrawn; in a pipe a new line follows each change of the status.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from muster.cli.show.messages import note, print_to_stderr, printable
from muster.jobs.view.units import duration, next_try

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.jobs.view.summary import JobSummary


def summary(job: JobSummary) -> str:
    """The job in one line. Without times: the line must change only when the job does."""
    pods = f" ({job.counts})" if job.counts else ""
    # The error of the command that waits says why the job failed.
    return f"{job.name} {job.status}{pods}{'' if job.over else job.because}"


class StatusLine:
    """The last line of stderr, redrawn on a terminal.

    Ctrl-C ends it with a sentence about the `subject`.

    With `instances`, each change of an instance is printed as a line that stays.
    """

    def __init__(
        self,
        clock: Callable[[], datetime],
        *,
        instances: bool = False,
        subject: str = "the job",
    ) -> None:
        self._clock, self._subject = clock, subject
        self._terminal = sys.stderr.isatty()
        self._with_instances = instances
        self._last = ""
        self._instances: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._terminal and self._last:
            print_to_stderr("")
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            note(f"no longer waiting; {self._subject} continues")

    def show_job(self, job: JobSummary) -> None:
        if self._with_instances:
            self._show_instances(job)
        now = self._clock()
        elapsed = duration(job.duration(now).total_seconds())
        self.show(summary(job), elapsed, next_try(job.next_try, now))

    def show(self, text: str, elapsed: str = "", rest: str = "") -> None:
        """Show a text, with the elapsed time before it and the remaining time after it.

        A line that differs only by these times is not a new one.
        """
        if self._terminal:
            import shutil  # imports compression, which a command in a pipe does not need

            width = shutil.get_terminal_size().columns - 1
            # One row, so that `\r` returns to its beginning.
            line = printable(f"{elapsed} {text}{rest}".strip()).replace("\n", " ")[:width]
            print_to_stderr(f"\r{line}\x1b[K", end="")
        elif text != self._last:
            note(f"{text}{rest}")
        self._last = text

    def _show_instances(self, job: JobSummary) -> None:
        """A lasting line, above the status line, for each instance that has changed."""
        for instance in job.instances:
            text = f"{instance.status}{f' on {instance.node}' if instance.node else ''}"
            if self._instances.get(instance.name) != text:
                self._instances[instance.name] = text
                if self._terminal:
                    print_to_stderr("\r\x1b[K", end="")
                note(f"{instance.name} {text}")
