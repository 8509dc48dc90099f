"""The STATUS of a pod, in the words of kubectl's column.

Used by `view` for tables and pages, and by whoever must say in one word what a pod is doing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.core import ContainerState, Pod


def status(pod: Pod) -> str:
    """One word: Pending, ContainerCreating, Init:0/1, Running, Completed, OOMKilled, …"""
    word = pod.status.reason or pod.status.phase or "Unknown"
    initial = _initialising(pod)
    word = _from_containers(pod, word) if initial is None else initial
    if pod.metadata.deletion_timestamp is not None:
        if pod.status.reason == "NodeLost":
            return "Unknown"
        return word if pod.finished else "Terminating"
    return word


def _initialising(pod: Pod) -> str | None:
    """The word while init containers are not all through; None afterwards."""
    always = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    total = len(pod.spec.init_containers)
    for number, container in enumerate(pod.status.init_container_statuses):
        ended = container.state.terminated
        if ended is not None and ended.exit_code == 0:
            continue
        if container.name in always and container.started:
            continue
        if ended is not None:
            return f"Init:{_ended(container.state)}"
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{number}/{total}"
    return None


def _from_containers(pod: Pod, word: str) -> str:
    running = False
    for container in reversed(pod.status.container_statuses):
        state = container.state
        if state.waiting is not None and state.waiting.reason:
            word = state.waiting.reason
        elif state.terminated is not None:
            word = _ended(state)
        elif state.running is not None and container.ready:
            running = True
    if word == "Completed" and running:
        ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        return "Running" if ready else "NotReady"
    return word


def _ended(state: ContainerState) -> str:
    ended = state.terminated
    if ended is None:
        return "Unknown"
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"
