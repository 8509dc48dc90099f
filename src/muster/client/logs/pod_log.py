"""The log of one pod, read once: up to now, from its first container that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError
from kubekit.objects.kinds import PODS
from kubekit.request_errors import BadRequest
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key


class LogOptions(NamedTuple):
    """Which part of the log, and whether with timestamps."""

    follow: bool = False
    container: str = ""
    tail: int | None = None
    since: float | None = None
    timestamps: bool = False
    previous: bool = False


class NotStarted(MusterError):
    """No container of the pod has started."""


def read_once(client: BlockingClient, key: Key, options: LogOptions) -> Iterator[bytes]:
    """The log up to now."""
    pod = client.get(PODS, key)
    try:
        yield from open_stream(client, pod, key, options, timestamps=options.timestamps)
    except BadRequest as error:
        reason = instance(pod).reason
        if not reason or reason in str(error) or has_log(pod):
            raise
        hint = f"`arena logs -f {key.name}` waits."
        raise NotStarted(f"{error}: {reason}", hint=hint) from error


def open_stream(
    client: BlockingClient, pod: Pod, key: Key, options: LogOptions, *, timestamps: bool
) -> Iterator[bytes]:
    container = options.container or container_to_read(pod)
    request = options._replace(container=container, timestamps=timestamps)
    return client.logs(key, **request._asdict())


def container_to_read(pod: Pod) -> str:
    """The init container that runs or failed, if no container has started; else empty."""
    states = [status.state for status in pod.status.container_statuses]
    if any(state.running or state.terminated for state in states):
        return ""
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated or status.last_state.terminated
        if status.state.running or (ended is not None and ended.exit_code != 0):
            return status.name
    return ""


def has_log(pod: Pod) -> bool:
    """Whether a log exists: of a container, or of an init container that failed."""
    states = [status.state for status in pod.status.container_statuses]
    if pod.finished or any(state.running or state.terminated for state in states):
        return True
    ends = [status.state.terminated for status in pod.status.init_container_statuses]
    return any(end is not None and end.exit_code != 0 for end in ends)
