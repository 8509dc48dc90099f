"""A pod that lives for one request of a user: it is created, waited for, read and deleted.

Everything goes through the Kubernetes API with the rights of the user. The pod may be the pod of a
batch Job, which the cluster removes even if the client dies.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from kubekit.errors import MusterError
from kubekit.objects.meta import Key, Raw, key_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from kubekit.objects.kinds import Kind

    Find = Callable[[], Awaitable[Pod | str]]
    """The pod as it is now, or why there is none yet."""

_POLL = 0.3
_HOPELESS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError")


@asynccontextmanager
async def created(client: Client, kind: Kind[Raw], body: Raw) -> AsyncGenerator[Raw, None]:
    """A pod, or a batch Job with one; it is deleted at the end, whatever happens.

    A cancellation takes effect only when the object is gone. If it comes before the server has
    answered the creation, the answer is waited for: nobody else knows what is to be deleted.
    """
    creation = asyncio.ensure_future(client.create(kind, body))  # owner: _delete awaits it
    try:
        yield await asyncio.shield(creation)
    finally:
        await _completed(_delete(client, kind, creation))


async def _delete(client: Client, kind: Kind[Raw], creation: asyncio.Future[Raw]) -> None:
    grace = 0 if kind.kind == "Pod" else None
    with contextlib.suppress(MusterError):
        made = await creation
        await client.delete(
            kind, key_of(made), uid=made["metadata"]["uid"], grace=grace, propagation="Background"
        )


async def _completed(work: Coroutine[Any, Any, None]) -> None:
    """Do this work to its end; cancellations that come before are raised after it."""
    task, cancelled = asyncio.ensure_future(work), False  # owner: the loop below awaits it
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def wait_until(
    state: Literal["running", "finished"], name: str, find: Find, seconds: float, hint: str = ""
) -> Pod:
    """Wait until the pod runs or has ended; `hint` is for an image that cannot be started."""
    why = "it has no pod yet"
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await find()
                if isinstance(found, str):
                    why = found or why
                elif found.finished or (state == "running" and found.status.phase == "Running"):
                    break
                else:
                    why = _why_waiting(found, name, hint)
                await asyncio.sleep(_POLL)
    except TimeoutError:
        raise MusterError(f"{name} is not {state} after {seconds:g} seconds: {why}") from None
    if state == "running" and found.finished:
        raise MusterError(f"{name} has ended ({found.status.phase})")
    return found


def _why_waiting(pod: Pod, name: str, hint: str) -> str:
    """Why the pod does not run yet; MusterError if it never will."""
    for row in pod.status.container_statuses:
        waiting = row.state.waiting
        if waiting is not None and waiting.reason in _HOPELESS:
            message = f"{name} cannot start: {waiting.reason}: {waiting.message}".rstrip(": ")
            raise MusterError(message, hint=hint)
    messages = [row.message for row in pod.status.conditions if row.message]
    return messages[0] if messages else pod.status.phase or "Pending"


async def read_log(client: Client, pod: Key, container: str, limit: int) -> str:
    """The last `limit` bytes of a container's log."""
    data = b""
    async for chunk in client.logs(pod, container=container):
        data = (data + chunk)[-limit:]
    return data.decode(errors="replace")
