"""Waiting for the first list of a kind, for as long as the reader of the page should wait.

A browser that opens a page should see something at once, even if the cluster has thousands of pods
to send. So a page's request has little patience: after it, `StillLoading` is raised, the reader
sees which objects are on the way, and the browser asks again, with all the patience.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kubekit.errors import MusterError, Unreachable

if TYPE_CHECKING:
    from kubekit.watch.informer import Informer

SYNC_SECONDS = 10.0
"""How long a page waits for the first list of a kind."""
PATIENCE_SECONDS = 0.1

_impatient_at: ContextVar[float | None] = ContextVar("impatient_at", default=None)
"""When the request of this task stops to wait, by the clock of the event loop."""


class StillLoading(MusterError):
    """The objects of a page are still on the way."""


def be_impatient() -> None:
    """The request of this task raises `StillLoading` instead of waiting for long."""
    _impatient_at.set(asyncio.get_running_loop().time() + PATIENCE_SECONDS)


async def first_list(informer: Informer[Any]) -> None:
    """Wait until the informer has its objects; raise the reason if it cannot get them."""
    if informer.has_synced:
        return
    start, impatient_at = asyncio.get_running_loop().time(), _impatient_at.get()
    deadline = start + SYNC_SECONDS
    if impatient_at is not None:
        deadline = min(deadline, impatient_at)
    try:
        async with asyncio.timeout_at(deadline):
            while not informer.has_synced:
                if informer.failure:
                    raise informer.failure.with_traceback(None)
                with suppress(TimeoutError):  # to look at the reason meanwhile
                    await asyncio.wait_for(informer.synced(), 0.1)
    except TimeoutError:
        if impatient_at is not None:
            raise StillLoading(f"The cluster sends its {informer.kind.plural}.") from None
        raise Unreachable(
            f"The cluster has not sent its {informer.kind.plural} in {SYNC_SECONDS:g} s."
        ) from None
