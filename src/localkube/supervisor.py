"""Keeps the components of the local cluster running: one that fails is started again.

A component is a coroutine function that builds all its state anew, so starting it again is like a
restart of its process on a real cluster. The pause before a start doubles up to a minute, and is
short again after the component has run for a while. The other components go on meanwhile.
`/readyz` and `arena status` show `problems`; `report` is told of every failure.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.client.retry import Backoff
from kubekit.control.loop import is_cancelled
from kubekit.errors import Bug, MusterError, describe, single_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Component = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)

BACKOFF = Backoff(first=1.0, cap=60.0, jitter=0.2)
STEADY = 10.0
"""Seconds after which a component that was started again counts as running."""
_FORGIVEN = 300.0
"""Seconds after which the pause is short again."""


@dataclass
class _State:
    problem: str = ""
    """The last failure; empty if there was none."""
    failures: int = 0
    """In a row, each soon after the start."""
    starts_at: float = 0.0
    """When the component was started, or will be."""


@dataclass
class Supervisor:
    report: Callable[[str, str], None]
    """Called with the name of a component and its failure; must not raise."""
    backoff: Backoff = BACKOFF
    _states: dict[str, _State] = field(default_factory=dict, init=False)

    def problems(self) -> dict[str, str]:
        """What is wrong with each component by name; "" if it runs."""
        now = asyncio.get_running_loop().time()
        return {name: _problem(state, now) for name, state in self._states.items()}

    async def keep_running(self, name: str, component: Component) -> None:
        """Run a component, again and again if it fails, until it returns or is cancelled."""
        clock = asyncio.get_running_loop().time
        state = self._states[name] = _State(starts_at=clock())
        while True:
            failure = await _failure_of(component)
            if failure is None:
                return
            # A task group that has an error raises it, even if it was cancelled meanwhile: without
            # this, a component that fails at that moment is started again and ends never.
            if is_cancelled():
                raise asyncio.CancelledError from failure
            now = clock()
            state.failures = 1 if now - state.starts_at > _FORGIVEN else state.failures + 1
            state.problem = _text(failure)
            pause = self.backoff.delay(state.failures)
            state.starts_at = now + pause
            _log(name, failure, state.problem, pause)
            self.report(name, state.problem)
            await asyncio.sleep(pause)


async def _failure_of(component: Component) -> BaseException | None:
    """Run a component; the error that ended it, or None if it returned."""
    try:
        await component()
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return error  # something that it awaited was cancelled elsewhere
    except BaseExceptionGroup as group:
        cause = single_error(group)
        if not isinstance(cause, Exception):
            raise
        return cause
    except Exception as error:  # noqa: BLE001 - whatever it is, the other components go on
        return error
    return None


def _problem(state: _State, now: float) -> str:
    if not state.problem or now >= state.starts_at + STEADY:
        return ""
    if now < state.starts_at:
        return f"{state.problem}; starts again in {state.starts_at - now:.0f} s"
    return f"{state.problem}; was started again {now - state.starts_at:.0f} s ago"


def _text(failure: BaseException) -> str:
    text = describe(failure) if isinstance(failure, Exception) else type(failure).__name__
    return text.partition("\n")[0]


def _log(name: str, failure: BaseException, text: str, pause: float) -> None:
    message = "%s failed and starts again in %.1f s: %s"
    expected = isinstance(failure, OSError | MusterError) and not isinstance(failure, Bug)
    log.error(message, name, pause, text, exc_info=None if expected else failure)
