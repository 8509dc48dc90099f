"""Events are written behind the work's back, and lost only if they must be."""

from __future__ import annotations

import asyncio

import pytest

from muster.api.events import EventSubject, EventText
from muster.control import event_recorder
from muster.control.event_recorder import EventRecorder
from muster.kube.client import Client
from tests.operator.builders import NOW
from tests.operator.fake_apiserver import Server

pytestmark = pytest.mark.looptime

JOB = EventSubject("kubeflow.org/v1", "TFJob", "default", "j", "job-uid", "tfjob-controller")


def reasons(server: Server) -> list[str]:
    return [obj["reason"] for path, obj in server.objects.items() if "/events/" in path]


async def test_an_event_is_written_on_its_object() -> None:
    server = Server()
    teller = EventRecorder(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        teller.tell(JOB, EventText("TFJobFailed", "x" * 2000, "Warning"))
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
    teller = EventRecorder(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        await asyncio.sleep(0)
        for number in range(20):
            teller.tell(JOB, EventText(f"Reason{number}", "m"))
        running.cancel()

    assert sorted(reasons(server)) == sorted(f"Reason{number}" for number in range(20))


async def test_an_end_does_not_wait_long_for_a_server_that_does_not_answer() -> None:
    server = Server(slow=1000.0)
    teller = EventRecorder(Client(server), lambda: NOW)
    start = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        await asyncio.sleep(0)
        teller.tell(JOB, EventText("Reason", "m"))
        teller.tell(JOB, EventText("Reason", "m"))
        teller.tell(JOB, EventText("Reason", "m"))
        running.cancel()

    assert asyncio.get_running_loop().time() - start < 10


async def test_an_event_that_is_refused_does_not_hold_up_the_next() -> None:
    server = Server(fail=0.5, seed=4)
    teller = EventRecorder(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        for number in range(40):
            teller.tell(JOB, EventText(f"Reason{number}", "m"))
        await asyncio.sleep(10)
        running.cancel()

    assert 5 < len(reasons(server)) < 40


async def test_what_is_told_again_and_again_is_one_event_written_ever_more_seldom() -> None:
    server = Server()
    teller = EventRecorder(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        for _ in range(100):
            teller.tell(JOB, EventText("ErrResourceExists", "pod x is another's", "Warning"))
            await asyncio.sleep(2)
        running.cancel()

    (event,) = (obj for path, obj in server.objects.items() if "/events/" in path)
    assert 60 < event["count"] <= 100
    writes = [ask for ask in server.asked if "/events" in ask[1]]
    assert [method for method, _ in writes] == ["POST", *["PATCH"] * (len(writes) - 1)]
    assert len(writes) < 9


async def test_a_repeated_event_that_the_server_has_forgotten_begins_anew() -> None:
    server = Server()
    teller = EventRecorder(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        teller.tell(JOB, EventText("Reason", "m"))
        await asyncio.sleep(5)
        for path in [path for path in server.objects if "/events/" in path]:
            server.remove(path)
        teller.tell(JOB, EventText("Reason", "m"))
        await asyncio.sleep(5)
        running.cancel()

    assert reasons(server) == ["Reason"]


async def test_news_give_way_to_work_but_not_for_ever() -> None:
    server = Server()
    busy = True
    teller = EventRecorder(Client(server), lambda: NOW, lambda: busy)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        teller.tell(JOB, EventText("First", "m"))
        await asyncio.sleep(25)
        assert reasons(server) == []
        await asyncio.sleep(10)
        assert reasons(server) == ["First"]

        teller.tell(JOB, EventText("Second", "m"))
        await asyncio.sleep(1)
        busy = False
        await asyncio.sleep(1)
        assert reasons(server) == ["First", "Second"]
        running.cancel()


async def test_only_so_many_events_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "_REMEMBERED", 10)
    server = Server()
    teller = EventRecorder(Client(server), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(teller.run())
        for number in range(50):
            teller.tell(JOB, EventText(f"Reason{number}", "m"))
        await asyncio.sleep(5)
        teller.tell(JOB, EventText("Reason0", "m"))
        teller.tell(JOB, EventText("Reason49", "m"))
        await asyncio.sleep(5)
        running.cancel()

    assert reasons(server).count("Reason0") == 2
    assert reasons(server).count("Reason49") == 1
