"""The scheduling loop: which gang is next, what to do about it, hand the actions on, repeat.

No polling: it sleeps until a watch event wakes it or the timer of a gang is due.

Promise: gangs are considered one at a time, first in line first, and binds of earlier decisions
are in flight while later ones are made. An error in the decision about one gang leaves that gang
waiting, and no other.

Kept apart because it needs no client and no clock: tests and benchmarks run it on a cluster in
memory, without the daemon around it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from kubekit.telemetry.metrics import counter, histogram
from muster.scheduler.decisions.bind_failures import BindFailure, bind_failed
from muster.scheduler.decisions.decision import (
    LONGEST_PAUSE,
    RELEASED,
    Action,
    Bind,
    Delete,
    Provision,
    Report,
    after_error,
    apply,
)
from muster.scheduler.decisions.gang_decision import consider, known
from muster.scheduler.effects.binder import BindOutcome, BindResult
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.contract.gang import GangKey
    from muster.scheduler.state import State

log = logging.getLogger(__name__)

DECISION_SECONDS = histogram("decision_seconds", "Time to decide about one gang")
BIND_SECONDS = histogram("bind_seconds", "Time from a plan to a bind that is settled")
PODS_PLANNED = counter("pods_planned_total", "Pods given a node by a plan")
BINDS = counter("binds_total", "Binds that were settled", "outcome")
DELETED = counter("pods_deleted_total", "Members deleted", "reason")
REPAIRS = counter(
    "repairs_total", "Gangs that lacked members and were mended or released", "outcome"
)
_BINDS = {outcome: BINDS.labels(outcome.value) for outcome in BindOutcome}
GANGS_AT_A_TIME = 16
"""Decisions without binds between two turns of the event loop; binds are sent at once."""

MIN_SLEEP = 0.001
"""Seconds: asyncio may wake just before a timer is due, and a sleep of 0 would spin."""


class Effects(Protocol):
    """Carries actions out; none of the methods may block."""

    def bind(self, bind: Bind) -> None: ...

    def delete(self, delete: Delete) -> None: ...

    def report(self, report: Report) -> None: ...

    def provision(self, provision: Provision) -> None: ...

    def line_changed(self) -> None: ...


class Loop:
    """Decides about due gangs until none is due."""

    def __init__(self, state: State, effects: Effects, *, clock: Callable[[], float]) -> None:
        self.state, self._effects, self._clock = state, effects, clock
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Run a round: something changed."""
        self._wake.set()

    def settled(self, result: BindResult) -> None:
        """Take over the result of a bind; a failed one makes its gang due."""
        binding, outcome = result.binding, result.outcome
        key, pod = binding.bind.gang, binding.pod
        BIND_SECONDS.observe(self._clock() - binding.bind.at)
        _BINDS[outcome].inc()
        if outcome is BindOutcome.BOUND:
            return
        log.warning("%s: not bound to %s: %s", pod.metadata.key, binding.node, result.why)
        with isolated("bind", key) as guard:
            self._not_bound(result)
        if guard.error is not None:
            self.state.mark_due(key)
        self.wake()

    def _not_bound(self, result: BindResult) -> None:
        bind, pod, _ = result.binding
        if result.outcome is BindOutcome.ELSEWHERE:
            self.state.unassume(pod.metadata.uid)
            self.state.mark_due(bind.gang)
        else:
            failure = BindFailure(result.outcome is BindOutcome.GONE, bind.plan, result.why)
            bind_failed(self.state, bind.gang, pod, self._clock(), failure)

    async def run(self) -> None:
        """Schedule until cancelled."""
        self.wake()
        while True:
            await self._sleep()
            self._wake.clear()
            await self.round()

    async def round(self) -> None:
        """Decide about every due gang, and let binds be sent in between."""
        without_binds = 0
        for key in self.state.due(self._clock()):
            actions = self._decide(key)
            for action in actions:
                with isolated("action", key):
                    self._do(action)
            without_binds += 1
            if without_binds >= GANGS_AT_A_TIME or any(isinstance(a, Bind) for a in actions):
                without_binds = 0
                await asyncio.sleep(0)
        if self.state.line_changed:
            self.state.line_changed = False
            self._effects.line_changed()

    def _decide(self, key: GangKey) -> tuple[Action, ...]:
        with isolated("decision", key) as guard, DECISION_SECONDS.time():
            return consider(self.state, key, self._clock()).actions
        assert guard.error is not None
        with isolated("recovery", key):
            decision = after_error(known(self.state, self._clock()), key, guard.error)
            apply(self.state, decision)
            return decision.actions
        self.state.line.wake_at(self._clock() + LONGEST_PAUSE, key)
        return ()

    async def _sleep(self) -> None:
        timer = self.state.line.next_timer()
        try:
            async with asyncio.timeout(
                None if timer is None else max(MIN_SLEEP, timer - self._clock())
            ):
                await self._wake.wait()
        except TimeoutError:
            return

    def _do(self, action: Action) -> None:
        if isinstance(action, Bind):
            PODS_PLANNED.inc(len(action.pairs))
            if action.mends:
                REPAIRS.labels("mended").inc()
            self._effects.bind(action)
        elif isinstance(action, Delete):
            DELETED.labels(action.reason).inc(len(action.pods))
            if action.reason == RELEASED:
                REPAIRS.labels("released").inc()
            self._effects.delete(action)
        elif isinstance(action, Provision):
            self._effects.provision(action)
        else:
            self._effects.report(action)
