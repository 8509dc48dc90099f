"""A component that fails is started again; the others go on."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from localkube.cluster import BACKOFF, Supervisor

pytestmark = pytest.mark.looptime
STEADILY = BACKOFF._replace(jitter=0.0)
EXHAUSTED = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class Component:
    """Fails at once the first few times, then runs."""

    def __init__(self, *failures: BaseException) -> None:
        self._failures = list(failures)
        self.starts: list[float] = []

    async def run(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        if self._failures:
            raise self._failures.pop(0)
        await asyncio.Event().wait()


async def test_the_pause_doubles_and_the_other_components_go_on() -> None:
    failing, other = Component(*[EXHAUSTED] * 8), Component()
    reports: list[tuple[str, str]] = []
    supervisor = Supervisor(lambda *report: reports.append(report), STEADILY)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(supervisor.keep_running("scheduler", failing.run)),
            group.create_task(supervisor.keep_running("operator", other.run)),
        ]
        await asyncio.sleep(300)
        for task in tasks:
            task.cancel()

    begin = failing.starts[0]
    assert [round(at - begin) for at in failing.starts] == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert len(other.starts) == 1
    assert reports == [("scheduler", "Too many open files")] * 8


async def test_problems_name_the_failure_until_the_component_has_run_for_a_while() -> None:
    supervisor = Supervisor(lambda *_: None, STEADILY)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(supervisor.keep_running("node", Component(EXHAUSTED).run))
        await asyncio.sleep(0)
        failed = supervisor.problems()
        await asyncio.sleep(3)
        started = supervisor.problems()
        await asyncio.sleep(10)
        steady = supervisor.problems()
        task.cancel()

    assert failed == {"node": "Too many open files; starts again in 1 s"}
    assert started == {"node": "Too many open files; was started again 2 s ago"}
    assert steady == {"node": ""}


@pytest.mark.parametrize(
    "failure",
    [
        ExceptionGroup("several", [ExceptionGroup("inner", [EXHAUSTED])]),
        asyncio.CancelledError(),
        ValueError("a bug\nwith details"),
    ],
    ids=["a group", "a future that was cancelled elsewhere", "a bug"],
)
async def test_any_failure_is_survived(failure: BaseException) -> None:
    component = Component(failure)
    supervisor = Supervisor(lambda *_: None, STEADILY)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(supervisor.keep_running("node", component.run))
        await asyncio.sleep(2)
        task.cancel()

    assert len(component.starts) == 2


async def test_a_component_that_returns_has_ended() -> None:
    async def run() -> None:
        return

    supervisor = Supervisor(lambda *_: None)
    await supervisor.keep_running("operator", run)

    assert supervisor.problems() == {"operator": ""}


async def test_a_component_that_fails_while_it_is_cancelled_is_not_started_again() -> None:
    """A task group that has an error raises it, and not the cancellation."""

    async def fail_when_cancelled() -> None:
        component.starts.append(0.0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ExceptionGroup("errors of tasks", [EXHAUSTED]) from None

    component = Component()
    supervisor = Supervisor(lambda *_: None, STEADILY)
    task = asyncio.create_task(supervisor.keep_running("node", fail_when_cancelled))
    await asyncio.sleep(1)

    task.cancel()
    await asyncio.wait([task], timeout=60)

    assert task.cancelled()
    assert len(component.starts) == 1
