"""Lines for the user on stderr, so that stdout stays machine-readable."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from kubekit.errors import UsageError

if TYPE_CHECKING:
    import logging

    from kubekit.objects.meta import Raw
    from muster.client.target import Cluster

NOTHING_CHANGED = "nothing was changed"
LEVELS = ("debug", "info", "warn", "error")


class _Level:
    """The lowest level that is shown; `--loglevel` sets it for the run of one command."""

    shown = "info"
    logger: logging.Logger | None = None
    """Set if lines are records of a daemon's log, which programs read."""
    is_daemon = False
    noted_once: ClassVar[set[str]] = set()


def set_loglevel(level: str) -> None:
    """Show lines of this level and above from now on; a run begins."""
    _Level.shown, _Level.logger, _Level.is_daemon = level, None, False
    _Level.noted_once.clear()


def log_lines(log_format: str) -> None:
    """This run is a daemon's. Its lines are records of its log, if the log is for programs."""
    import logging  # slow to import, and only daemons have a log

    _Level.is_daemon = True
    _Level.logger = logging.getLogger("muster") if log_format == "json" else None


def note(text: str, level: str = "info") -> None:
    """Print one line, if lines of this level are shown."""
    if LEVELS.index(level) < LEVELS.index(_Level.shown):
        return
    if _Level.logger is None:
        print_to_stderr(printable(text))
    else:
        getattr(_Level.logger, "warning" if level == "warn" else level)(text)


def print_error(text: str, hint: str = "") -> None:
    """Say why a command ends, and the next step."""
    if _Level.logger is not None:
        _Level.logger.error(text, extra={"hint": hint} if hint else {})
        return
    # Standard output may be what cannot be written.
    print(f"error: {printable(text)}", file=sys.stderr)
    if hint:
        print(printable(hint), file=sys.stderr)


def print_bug(error: Exception) -> None:
    """Say which error nobody expected; a daemon's log has the traceback, as it may not recur."""
    text = f"{type(error).__name__}: {error}"
    if _Level.is_daemon:
        import logging

        logging.getLogger("muster").error("please report this: %s", text, exc_info=error)
    else:
        print_error(text, "this is a bug in Muster; `--debug` shows where")


def print_to_stderr(text: str, end: str = "\n") -> None:
    """Print to stderr after flushing stdout: in a pipe only stdout is buffered."""
    sys.stdout.flush()
    print(text, end=end, file=sys.stderr, flush=True)


def note_once(text: str, level: str = "info") -> None:
    """Print a line once per run: a view may be redrawn for hours."""
    if text not in _Level.noted_once:
        _Level.noted_once.add(text)
        note(text, level)


def note_cluster(cluster: Cluster) -> None:
    """Name the cluster that a command is about to change, unless it is the local one."""
    if not cluster.local:
        note(str(cluster))


def warn_of_unknown_fields(job: Raw, subject: str = "") -> None:
    """Print a line for every unknown field of a job's manifest, and for an unknown value.

    `subject` names one of several manifests.
    """
    # Only verbs with `-f` need it.
    from muster.jobs.unknown_fields import warnings

    for problem in warnings(job):
        note(f"warning: {subject and subject + ': '}{problem}", "warn")


def debug(text: str) -> None:
    """Print a line that `--loglevel debug` shows."""
    note(text, "debug")


def arena_info(text: str) -> None:
    """An INFO line, shaped like arena's."""
    note(f"INFO[0000] {text}")


def printable(text: str) -> str:
    """The text with control characters escaped: text from a server or a user may be hostile."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def confirm(cluster: Cluster, action: str, *, yes: bool) -> None:
    """Ask whether to act, unless `yes` or on the local cluster.

    A refusal ends the command with 1, Ctrl-C with 130.
    """
    if yes or cluster.local:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{action} on {cluster.name}: cannot ask without a terminal",
            hint="--yes skips the question.",
        )
    import click  # the help page does without it

    try:
        answer = click.confirm(f"{action} on {cluster.name}?", err=True)
    except click.Abort as error:
        interrupted = isinstance(error.__context__, KeyboardInterrupt)
        note(f"\n{NOTHING_CHANGED}")  # the cursor is still behind the question
        raise click.exceptions.Exit(130 if interrupted else 1) from None
    if not answer:
        note(NOTHING_CHANGED)
        raise click.exceptions.Exit(1)
