"""How a pod ended: read from its status into fields, and put in words.

The words are the end of a sentence (`exited with code 1`, `was OOMKilled`, `could not start: …`),
the same in a job's message and in tables.

The module words two more things. Who took a pod away, and why, is in its condition
DisruptionTarget. And on a node that does not answer a pod cannot end: it stays, without a
replacement, until the node answers, its Node object is deleted, or somebody says that the machine
is off.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.conditions import PREEMPTION, preemption_in_words
from kubekit.objects.meta import find_condition, timestamp
from muster.jobs import error_lines, names
from muster.jobs.job_status import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kubekit.objects.core import ContainerTerminated, Pod

_RELEASED = "ReleasedByMuster"
"""Of a gang that never ran whole: it waits again, and the reason says for what."""
_MAX_MESSAGE = 300
"""Characters of what a node or controller wrote that are repeated in the job's status."""
_PLAIN_REASONS = ("", "Error", "Completed")
"""Reasons of containers that say no more than the exit code."""
_NEVER_RAN = ("StartError", "ContainerCannotRun")
"""Reasons of containers whose exit code means nothing."""
_NO_PROGRAM = (126, 127)
"""Exit codes of a shell that cannot run or find the program of its command."""
_OUT_OF_MEMORY = "OOMKilled"
_MIN_MEMORY = 1 << 20
"""Bytes with which a program may possibly start."""
_LAST = datetime.max.replace(tzinfo=UTC)
_SIGNALLED = 128
"""The exit code of a container that a signal ended is this and the number of the signal."""
_SIGNALS = 65
_STOP_SIGNALS = (2, 6, 15)
"""SIGINT, SIGABRT, SIGTERM: somebody asked the program to stop, or it stopped itself."""
_KILLED, _EXITED, _STOPPED = range(3)
"""Of failures in the same second, the first is the likeliest cause."""


def ending_of(pod: Pod) -> Ending:
    """How this pod failed.

    `terminationMessagePolicy: FallbackToLogsOnError` makes the end of the log the message.
    """
    cause = _failed_container(pod)
    if cause is not None:
        return container_ending(pod, *cause)
    return _ending(pod, pod.status.reason, pod.status.message)


def container_ending(pod: Pod, name: str, end: ContainerTerminated) -> Ending:
    """How a container of this pod ended."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    reason = "" if end.reason in _PLAIN_REASONS else end.reason
    limits = (row.resources.limits.get("memory") for row in containers if row.name == name)
    limit = next(limits, None) if reason == _OUT_OF_MEMORY else None
    return replace(
        _ending(pod, reason, ""),
        container=name if len(containers) > 1 else "",
        exit_code=end.exit_code,
        signal=end.signal or 0,
        memory_limit="" if limit is None else str(limit),
        last_lines=tuple(error_lines.last_lines(end_of_log(end))),
    )


def interruption_of(pod: Pod) -> Ending:
    """How the cluster ended this pod."""
    notice = find_condition(pod.status.conditions, "DisruptionTarget")
    reason = pod.status.reason or (notice.reason if notice is not None else "")
    return _ending(pod, reason, pod.status.message or (notice.message if notice else ""))


def _ending(pod: Pod, reason: str, message: str) -> Ending:
    role, index = pod.metadata.labels.get(names.ROLE, ""), names.replica_index(pod.metadata.labels)
    line = error_lines.last_line(message)
    lines = (line,) if line else ()
    return Ending(pod.metadata.name, role, max(index, 0), reason=reason, last_lines=lines)


def brief(ending: Ending) -> Ending:
    """The ending with one line of its log, for a status that has one of each replica."""
    return replace(ending, last_lines=tuple(filter(None, [error_line(ending)])))


def error_line(ending: Ending) -> str:
    """The line of its log that names the error best; empty if it has none."""
    return error_lines.telling_line(ending.last_lines)


def may_end_well_next_time(ending: Ending) -> bool:
    """Whether another try could help: not a program that never ran, or lacked memory."""
    if ending.exit_code is None or ending.exit_code in _NO_PROGRAM:
        return False
    return ending.reason not in (*_NEVER_RAN, _OUT_OF_MEMORY)


def in_words(ending: Ending) -> str:
    """The end of a sentence that begins with the name of the replica, without a line of its log."""
    if ending.exit_code is None:
        return ending.reason or "failed"
    if ending.reason in _NEVER_RAN:
        text = "could not start"
    elif ending.reason == _OUT_OF_MEMORY:
        text = f"was OOMKilled (exit code {ending.exit_code})"
        if ending.memory_limit:
            text += f" at its memory limit of {_memory(ending.memory_limit)}"
    else:
        text = f"exited with code {ending.exit_code}{_signal_name(ending.exit_code - 128)}"
        if ending.signal:
            text = f"was killed by signal {ending.signal}{_signal_name(ending.signal)}"
        text += f" ({ending.reason})" if ending.reason else ""
    return f"{text} (container {ending.container})" if ending.container else text


def with_line(ending: Ending) -> str:
    """`in_words`, and the line of its log that names the error best."""
    line = error_line(ending)
    return f"{in_words(ending)}: {line}" if line else in_words(ending)


def interruption_in_words(ending: Ending) -> str:
    """How the cluster ended a pod, as the end of a sentence that begins with its name."""
    text = "was interrupted" + (f" ({ending.reason})" if ending.reason else "")
    return f"{text}: {ending.last_lines[0]}" if ending.last_lines else text


def failure(pod: Pod) -> str:
    """How this pod failed, as the end of a sentence that begins with its name."""
    return with_line(ending_of(pod))


def preemption(pod: Pod) -> str:
    """By whom this pod was preempted (`preempted by …`); empty if it was not."""
    notice = find_condition(pod.status.conditions, "DisruptionTarget")
    if notice is None or (notice.status, notice.reason) != ("True", PREEMPTION):
        return ""
    return preemption_in_words(notice.message)


def removal(pod: Pod) -> str:
    """By whom and why the pod was taken away (`evicted from node n by …`); empty if it was not."""
    notice = find_condition(pod.status.conditions, "DisruptionTarget")
    if notice is None or notice.status != "True" or notice.reason == _RELEASED:
        return ""
    if notice.reason == PREEMPTION:
        return preemption(pod)
    node, message = f"node {pod.spec.node_name}", (notice.message or notice.reason)[:_MAX_MESSAGE]
    if notice.reason == "EvictionByEvictionAPI":
        return f"evicted from {node} through the eviction API, as by `kubectl drain`"
    if notice.reason == "DeletionByTaintManager":
        silent = pod.unreachable_since is not None
        why = "which does not answer" if silent else f"which has a taint ({message})"
        return f"evicted from {node}, {why}"
    if notice.reason == "TerminationByKubelet":
        return f"stopped by {node}: {pod.status.message[:_MAX_MESSAGE] or message}"
    return f"removed from {node} ({notice.reason}: {message})"


def first_removal(pods: Sequence[Pod]) -> str:
    """By whom and why the first of these pods was taken away; empty if none was."""
    return next(filter(None, map(removal, pods)), "")


def unreachable(pod: Pod) -> str:
    """Since when the pod's node has not answered, what happens next, and what a person can do."""
    node, name, since = pod.spec.node_name, pod.metadata.name, pod.unreachable_since
    assert since is not None
    text = f"node {node} has not answered since {timestamp(since)}"
    if pod.metadata.deletion_timestamp is None:
        return f"{text}; if that lasts, the cluster evicts pod {name}, by default after 5 minutes"
    force = f"kubectl delete pod {name} --namespace {pod.metadata.namespace} --force"
    out = f"kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    return (
        f"{text}, so pod {name} cannot end; it is replaced once the node answers or is deleted. "
        f"If the machine is off: `{out}` (an administrator), or `{force}`"
    )


def unreachable_pods(pods: Iterable[Pod]) -> list[Pod]:
    """The pods whose nodes do not answer, those that are to end first."""
    silent = [pod for pod in pods if pod.unreachable_since is not None]
    return sorted(silent, key=lambda pod: pod.metadata.deletion_timestamp is None)


def first_unreachable(pods: Sequence[Pod]) -> str:
    """The sentence about the first of some pods whose nodes do not answer."""
    others = len(pods) - 1
    more = f" ({others} more {'pods are' if others > 1 else 'pod is'} on such a node)"
    return f"{unreachable(pods[0])}{more if others else ''}"


def end_of_log(end: ContainerTerminated) -> str:
    """The message of a container that ended; empty if the log itself has to be read."""
    return "" if error_lines.has_lost_the_error(end.message) else end.message


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


def any_running(pods: Iterable[Pod]) -> bool:
    """Whether a pod has a node and has not ended."""
    return any(
        pod.spec.node_name or pod.status.phase == "Running"
        for pod in pods
        if not pod.finished and pod.metadata.deletion_timestamp is None
    )


def first_failed(pods: Iterable[Pod]) -> Pod:
    """The pod whose failure is the cause of the others'; there must be one.

    A pod that lost a peer comes last. Otherwise it is the first to end; in the same second, for
    times are whole seconds, one that was killed or crashed, and last one that was asked to stop.
    """
    return min(pods, key=lambda pod: (lost_peer(pod), ended_at(pod) or _LAST, _rank(pod)))


def lost_peer(pod: Pod) -> bool:
    """Whether this pod failed because a peer of its training is gone, as its last lines say."""
    cause = _failed_container(pod)
    return cause is not None and error_lines.names_lost_peer(cause[1].message)


def may_be_consequence(pod: Pod) -> bool:
    """Whether another pod, whose end is not known yet, may be the cause of this pod's failure."""
    return _rank(pod) == _STOPPED or lost_peer(pod)


def ended_at(pod: Pod) -> datetime | None:
    """When the first of its containers failed."""
    times = [end.finished_at for _, end in _ends(pod) if end.finished_at is not None]
    return min(times, default=None)


def _rank(pod: Pod) -> int:
    cause = _failed_container(pod)
    if cause is None:
        return _KILLED if pod.status.reason not in _PLAIN_REASONS else _EXITED
    number = cause[1].signal or cause[1].exit_code - _SIGNALLED
    if number in _STOP_SIGNALS:
        return _STOPPED
    return _KILLED if 0 < number < _SIGNALS or cause[1].reason == _OUT_OF_MEMORY else _EXITED


def _failed_container(pod: Pod) -> tuple[str, ContainerTerminated] | None:
    """The container whose end explains the pod's failure; None if the pod's own reason does."""
    # Evicted, OutOfcpu and the like: the pod's reason explains why its containers were killed.
    return next(_ends(pod), None) if pod.status.reason in _PLAIN_REASONS else None


def _ends(pod: Pod) -> Iterator[tuple[str, ContainerTerminated]]:
    """The failed ends of its containers; ends before a restart come last."""
    rows = pod.status.all_container_statuses
    for states in ([row.state for row in rows], [row.last_state for row in rows]):
        for row, state in zip(rows, states, strict=True):
            if state.terminated is not None and _unsuccessful(state.terminated):
                yield row.name, state.terminated


def _unsuccessful(end: ContainerTerminated) -> bool:
    return end.exit_code != 0 or bool(end.signal) or end.reason not in _PLAIN_REASONS


def _memory(limit: str) -> str:
    """An amount of memory; a small number without a unit is a mistake."""
    if read_integer(limit, most=_MIN_MEMORY - 1) is None:
        return limit
    return f"{limit} byte{'' if limit == '1' else 's'}; write a unit, such as {limit}Mi"


def _signal_name(number: int) -> str:
    """The name of the signal with this number, if there is one."""
    import signal  # slow to import

    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""
