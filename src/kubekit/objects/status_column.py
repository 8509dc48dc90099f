"""The STATUS of a pod, as kubectl prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import condition_is_true, find_condition

if TYPE_CHECKING:
    from kubekit.objects.core import ContainerState, Pod


def status_column(pod: Pod) -> str:
    """One word: Pending, ContainerCreating, Init:0/1, Running, Completed, OOMKilled, …"""
    word = pod.status.reason or pod.status.phase or "Unknown"
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        word = scheduled.reason
    init = init_word(pod)
    initialized = not init or condition_is_true(pod.status.conditions, "Initialized")
    word = _from_containers(pod, init or word) if initialized else init
    if pod.metadata.deletion_timestamp is not None:
        if pod.status.reason == "NodeLost":
            return "Unknown"
        return word if pod.finished else "Terminating"
    return word


def init_word(pod: Pod) -> str:
    """The word of the first init container that has not succeeded, as `Init:0/1`; empty if none."""
    always = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    total = len(pod.spec.init_containers)
    for number, container in enumerate(pod.status.init_container_statuses):
        ended = container.state.terminated
        if ended is not None and ended.exit_code == 0:
            continue
        if container.name in always and container.started:
            continue
        if ended is not None:
            return f"Init:{_terminated_word(container.state)}"
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{number}/{total}"
    return ""


def _from_containers(pod: Pod, word: str) -> str:
    running = False
    # As in kubectl, the first container with something to report wins, so it comes last.
    for container in reversed(pod.status.container_statuses):
        state = container.state
        if state.waiting is not None and state.waiting.reason:
            word = state.waiting.reason
        elif state.terminated is not None:
            word = _terminated_word(state)
        elif state.running is not None and container.ready:
            running = True
    if word == "Completed" and running:
        return "Running" if condition_is_true(pod.status.conditions, "Ready") else "NotReady"
    return word


def _terminated_word(state: ContainerState) -> str:
    ended = state.terminated
    if ended is None:
        return "Unknown"
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"
