"""How a pod failed, in words.

`failure` gives the end of a sentence (`exited with code 1`, `was OOMKilled`, `could not start: …`),
the same in a job's message and in tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.conditions import PREEMPTION, preemption_in_words
from kubekit.objects.meta import find_condition
from muster.jobs import log_tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.objects.core import ContainerTerminated, Pod, Quantity


_PLAIN_REASONS = ("", "Error", "Completed")
"""Reasons of containers that say no more than the exit code."""
MAX_LINES = 10
"""Lines at the end of a log that explain a failure."""
LAST_LINES = " Its last lines:\n"
"""Separates the sentence from the end of the log in the message of a failed job."""
_MIN_MEMORY = 1 << 20
"""Bytes with which a program may possibly start."""
_LAST = datetime.max.replace(tzinfo=UTC)


def failure(pod: Pod) -> str:
    """How this pod failed, as the rest of a sentence that begins with its name."""
    cause = _failed_container(pod)
    if cause is None:
        return _pod_failure(pod)
    message = log_tail.last_line(end_of_log(cause[1]))
    return (
        f"{container_ending(pod, *cause)}: {message}" if message else container_ending(pod, *cause)
    )


def failure_with_lines(pod: Pod) -> str:
    """`failure` as a whole sentence, followed by the last lines of the log if there are several.

    `terminationMessagePolicy: FallbackToLogsOnError` makes the end of the log the message.
    """
    cause = _failed_container(pod)
    lines = log_tail.last_lines(end_of_log(cause[1]), MAX_LINES) if cause else []
    if cause is None or len(lines) < 2:
        return sentence(failure(pod))
    text = "\n".join(lines)
    return f"{container_ending(pod, *cause)}.{LAST_LINES}{text}"


def end_of_log(end: ContainerTerminated) -> str:
    """The message of a container that ended; empty if the log itself has to be read."""
    return "" if log_tail.has_lost_the_error(end.message) else end.message


def preemption(pod: Pod) -> str:
    """By whom this pod was preempted (`preempted by …`); empty if it was not."""
    notice = find_condition(pod.status.conditions, "DisruptionTarget")
    if notice is None or (notice.status, notice.reason) != ("True", PREEMPTION):
        return ""
    return preemption_in_words(notice.message)


def interruption(pod: Pod) -> str:
    """How the cluster ended this pod, as the rest of a sentence that begins with its name."""
    if words := preemption(pod):
        return f"was {words}"
    notice = find_condition(pod.status.conditions, "DisruptionTarget")
    reason = pod.status.reason or (notice.reason if notice is not None else "")
    message = pod.status.message or (notice.message if notice is not None else "")
    text = "was interrupted" + (f" ({reason})" if reason else "")
    return f"{text}: {log_tail.last_line(message)}" if message else text


def sentence(text: str) -> str:
    """The text with a full stop, unless the message that it quotes has one."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def failed_attempt(pod: Pod) -> tuple[str, int] | None:
    """The container whose end explains the pod's failure, and its earlier attempts in this pod."""
    cause = _failed_container(pod)
    if cause is None:
        return None
    rows = pod.status.all_container_statuses
    row = next(row for row in rows if row.name == cause[0])
    # A container that runs again, or is about to, is one attempt further.
    further = row.state.terminated is None and not row.waits_for_restart
    return row.name, max(0, row.restart_count - further)


def split_failure(message: str) -> tuple[str, tuple[str, ...]]:
    """The message of a failed job in one sentence, with the line that names the error best, and
    all its last lines.
    """
    sentence, _, text = message.partition(LAST_LINES)
    lines = tuple(text.split("\n")) if text else ()
    error = log_tail.telling_line(lines)
    return (f"{sentence.removesuffix('.')}: {error}" if lines else sentence), lines


def _failed_container(pod: Pod) -> tuple[str, ContainerTerminated] | None:
    """The container whose end explains the pod's failure; None if the pod's own reason does."""
    # Evicted, OutOfcpu and the like: the pod's reason explains why its containers were killed.
    return next(_ends(pod), None) if pod.status.reason in _PLAIN_REASONS else None


def container_ending(pod: Pod, name: str, end: ContainerTerminated) -> str:
    """How a container ended, as the rest of a sentence that begins with the pod's name."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    ending = _container_ending(end)
    if end.reason == "OOMKilled":
        limits = (row.resources.limits.get("memory") for row in containers if row.name == name)
        limit = next(limits, None)
        ending += f" at its memory limit of {_memory(limit)}" if limit else ""
    return f"{ending} (container {name})" if len(containers) > 1 else ending


def _memory(limit: Quantity) -> str:
    """An amount of memory; a small number without a unit is a mistake."""
    number = read_integer(str(limit), most=_MIN_MEMORY - 1)
    if number is None:
        return str(limit)
    return f"{limit} byte{'' if str(limit) == '1' else 's'}; write a unit, such as {limit}Mi"


def any_running(pods: Iterable[Pod]) -> bool:
    """Whether a pod has a node and has not ended."""
    return any(
        pod.spec.node_name or pod.status.phase == "Running"
        for pod in pods
        if not pod.finished and pod.metadata.deletion_timestamp is None
    )


def first_failed(pods: Iterable[Pod]) -> Pod:
    """The pod that failed first, as far as their containers tell; there must be one."""
    return min(pods, key=_when)


def _when(pod: Pod) -> datetime:
    times = [end.finished_at for _, end in _ends(pod) if end.finished_at is not None]
    return min(times, default=_LAST)


def _ends(pod: Pod) -> Iterator[tuple[str, ContainerTerminated]]:
    """The failed ends of its containers; ends before a restart come last."""
    rows = pod.status.all_container_statuses
    for states in ([row.state for row in rows], [row.last_state for row in rows]):
        for row, state in zip(rows, states, strict=True):
            if state.terminated is not None and _unsuccessful(state.terminated):
                yield row.name, state.terminated


def _unsuccessful(end: ContainerTerminated) -> bool:
    return end.exit_code != 0 or bool(end.signal) or end.reason not in _PLAIN_REASONS


def _pod_failure(pod: Pod) -> str:
    reason, message = pod.status.reason or "failed", log_tail.last_line(pod.status.message)
    return f"{reason}: {message}" if message else reason


def _container_ending(end: ContainerTerminated) -> str:
    """How a container ended; a container that never ran has no meaningful exit code."""
    if end.reason in ("StartError", "ContainerCannotRun"):
        return "could not start"
    if end.signal:
        ending = f"was killed by signal {end.signal}{_named(end.signal)}"
    else:
        ending = f"exited with code {end.exit_code}{_named(end.exit_code - 128)}"
    if end.reason == "OOMKilled":
        ending = f"was OOMKilled (exit code {end.exit_code})"
    elif end.reason not in _PLAIN_REASONS:
        ending = f"{ending} ({end.reason})"
    return ending


def _named(number: int) -> str:
    """The name of the signal with this number, if there is one."""
    import signal  # slow to import

    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""
