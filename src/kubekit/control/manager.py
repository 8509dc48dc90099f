"""One daemon: its informers, its reconcile loops and its background tasks, in one task group.

    background     informers, background tasks    run from start to end
    led            loops, led background tasks    run once informers have synced and, with `lead`,
                                                  only while this process leads

Promises:

- No reconcile before every informer has synced.
- With `health`, the daemon is unready while an informer may be out of date, and not alive while an
  attempt hangs. (A stuck event loop answers no probe at all.)
- When `stop` is set or `run` is cancelled, no new key is taken, running attempts get `grace`
  seconds, and then the rest is cancelled.
- When any part crashes, everything stops and `run` raises that error. With `restarts`, an informer
  or a background task that crashes is started again instead, later each time, and the rest goes on:
  what a stranger wrote for one of them must not stop the others.
- A lost lease is not a crash: led tasks stop, and start again from the informers' current state
  when the lease is won back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from kubekit.client.retry import Backoff
from kubekit.control.leader_election import LeaseLost
from kubekit.control.loop import LEADING, Reconcile, is_cancelled, run_workers, show_depth
from kubekit.errors import single_error
from kubekit.telemetry import unexpected_errors

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kubekit.control.work_queue import WorkQueue
    from kubekit.telemetry.health import Health

log = logging.getLogger(__name__)

Run: TypeAlias = Callable[[], Awaitable[None]]
Lead: TypeAlias = Callable[[Run], Awaitable[None]]
"""Waits for the lease, runs the work; cancels it and raises LeaseLost when the lease is lost."""

_CONTEND_PAUSE = 1.0
"""Seconds after a lost lease, so that a lease that is lost at once does not make a busy loop."""
_RESTART = Backoff(first=0.5, cap=60.0)
STUCK = 600.0
"""Seconds after which an attempt counts as hung: every request has a shorter limit."""


class Syncing(Protocol):
    """An informer, as the manager uses it."""

    @property
    def has_synced(self) -> bool: ...

    @property
    def stale_reason(self) -> str: ...

    async def synced(self) -> None: ...

    async def run(self) -> None: ...


I = TypeVar("I", bound=Syncing)  # noqa: E741 - I for informer
K = TypeVar("K", bound="Hashable")


async def _call(run: Run) -> None:
    """A coroutine around any awaitable, as tasks require; also the `lead` of a sole replica."""
    await run()


class Manager:
    """Collects the parts of a daemon, then runs them."""

    def __init__(
        self,
        name: str,
        *,
        health: Health | None = None,
        lead: Lead | None = None,
        grace: float = 20,
        restarts: bool = False,
    ) -> None:
        self.name = name
        self.grace = grace
        self._restarts = restarts
        self._lead = lead or _call
        self._informers: list[Syncing] = []
        self._loops: list[tuple[WorkQueue[Any], Run]] = []
        self._background: list[tuple[str, Run]] = []
        self._led: list[tuple[str, Run]] = []
        self._stopping = asyncio.Event()
        self._active = False
        self._leading = LEADING.labels(name)
        self._leading.set(0)
        if health is not None:
            health.ready("informers", self._stale)
            health.live("loops", self._stuck)

    def informer(self, informer: I) -> I:
        """Run this informer; loops start when it and all others have synced."""
        self._informers.append(informer)
        return informer

    def loop(self, queue: WorkQueue[K], reconcile: Reconcile[K], *, workers: int = 1) -> None:
        """Reconcile this queue's keys."""
        show_depth(queue)
        self._loops.append((queue, lambda: run_workers(queue, reconcile, workers=workers)))

    def background(self, name: str, run: Run, *, led: bool = False) -> None:
        """Run this beside the loops: from start to end or, with `led`, only while we lead.

        It may return early; it ends by being cancelled.
        """
        (self._led if led else self._background).append((name, run))

    def stop(self) -> None:
        """Ask `run` to end gracefully."""
        self._stopping.set()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run everything until `stop` (the method, or the event), cancellation, or any crash."""
        informers: list[tuple[str, Run]] = [
            (f"informer-{number}", informer.run) for number, informer in enumerate(self._informers)
        ]
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(self._guarded(name, run), name=f"{self.name}/{name}")
                    for name, run in informers + self._background
                ]
                if stop is not None:
                    background.append(group.create_task(self._stop_at(stop)))
                foreground = group.create_task(self._foreground(), name=f"{self.name}/loops")
                try:
                    await self._stopping.wait()
                finally:
                    await self._wind_down(foreground)
                    for task in background:
                        task.cancel()
        except BaseExceptionGroup as crash:
            raise single_error(crash) from None

    async def _stop_at(self, event: asyncio.Event) -> None:
        await event.wait()
        self.stop()

    async def _foreground(self) -> None:
        for informer in self._informers:
            await informer.synced()
        log.info("%s: informers synced", self.name)
        while not self._stopping.is_set():
            try:
                await self._lead(self._work)
            except LeaseLost as lost:
                log.warning("%s: %s; contending again", self.name, lost)
                await asyncio.sleep(_CONTEND_PAUSE)

    async def _work(self) -> None:
        """Everything that acts, until the manager stops or leadership is lost (cancellation)."""
        self._active = True
        self._leading.set(1)
        try:
            async with asyncio.TaskGroup() as group:
                led = [
                    group.create_task(self._guarded(name, run), name=name)
                    for name, run in self._led
                ]
                loops = [
                    group.create_task(_call(run), name=queue.name) for queue, run in self._loops
                ]
                await self._stopping.wait()
                # A loop ends when its queue is shut down, a led task only when it is cancelled.
                if loops:
                    await asyncio.wait(loops)
                for task in led:
                    task.cancel()
        finally:
            self._active = False
            self._leading.set(0)

    async def _guarded(self, name: str, run: Run) -> None:
        clock = asyncio.get_running_loop().time
        failures, started = 0, clock()
        while True:
            try:
                return await run()
            except Exception as error:
                if not self._restarts or is_cancelled():
                    raise
                failures = 1 if clock() - started > _RESTART.cap else failures + 1
                delay = _RESTART.delay(failures)
                then = f", will start again in {delay:.2f} s"
                unexpected_errors.survived(self.name, name, error, then)
                await asyncio.sleep(delay)
                started = clock()

    async def _wind_down(self, foreground: asyncio.Task[None]) -> None:
        self._stopping.set()
        for queue, _ in self._loops:
            queue.shutdown()
        if self._active:  # a follower has no attempt under way that could need time
            await asyncio.wait([foreground], timeout=self.grace)
        if not foreground.done():
            if self._active:
                log.warning("%s: not finished after %g s, stopping anyway", self.name, self.grace)
            foreground.cancel()

    def _stale(self) -> str:
        waiting = sum(not informer.has_synced for informer in self._informers)
        problems = sorted({informer.stale_reason for informer in self._informers} - {""})
        if waiting:
            problems.insert(0, f"{waiting} of {len(self._informers)} informers not synced")
        return "; ".join(problems)

    def _stuck(self) -> str:
        hanging = {queue.name: queue.longest for queue, _ in self._loops}
        return "; ".join(
            f"an attempt of {name} has been running for {seconds:.0f} s"
            for name, seconds in hanging.items()
            if seconds > STUCK
        )
