"""Events are written behind the work's back, and lost only if they must be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from muster.jobs import forms
from muster.kube.client import Client
from muster.operator.actions import Emit
from muster.operator.tell import Teller
from tests.operator.builders import NOW, manifest
from tests.operator.server import Server

if TYPE_CHECKING:
    from muster.jobs.job import Job

pytestmark = pytest.mark.looptime


def job() -> Job:
    return forms.read(manifest())


def reasons(server: Server) -> list[str]:
    return [obj["reason"] for path, obj in server.objects.items() if "/events/" in path]


async def test_an_event_is_written_on_its_job() -> None:
    server = Server()
    teller = Teller(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        teller.tell(job(), Emit("TFJobFailed", "x" * 2000, "Warning"))
        await asyncio.sleep(1)
        running.cancel()

    (event,) = (obj for path, obj in server.objects.items() if "/events/" in path)
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("TFJob", "j", "job-uid")
    assert (event["type"], event["reason"], len(event["message"])) == (
        "Warning",
        "TFJobFailed",
        1024,
    )


async def test_what_is_left_at_the_end_is_written_before_it() -> None:
    server = Server(slow=0.05)
    teller = Teller(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        await asyncio.sleep(0)
        for number in range(20):
            teller.tell(job(), Emit(f"Reason{number}", "m"))
        running.cancel()

    assert sorted(reasons(server)) == sorted(f"Reason{number}" for number in range(20))


async def test_an_end_does_not_wait_long_for_a_server_that_does_not_answer() -> None:
    server = Server(slow=1000.0)
    teller = Teller(Client(server), lambda: NOW)
    start = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        await asyncio.sleep(0)
        teller.tell(job(), Emit("Reason", "m"))
        teller.tell(job(), Emit("Reason", "m"))
        teller.tell(job(), Emit("Reason", "m"))
        running.cancel()

    assert asyncio.get_running_loop().time() - start < 10


async def test_an_event_that_is_refused_does_not_hold_up_the_next() -> None:
    server = Server(fail=0.5, seed=4)
    teller = Teller(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        for number in range(40):
            teller.tell(job(), Emit(f"Reason{number}", "m"))
        await asyncio.sleep(10)
        running.cancel()

    assert 5 < len(reasons(server)) < 40
