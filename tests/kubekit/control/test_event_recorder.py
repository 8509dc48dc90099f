"""Events: queued or awaited, counted when they repeat, written before the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kubekit.client.client import Client
from kubekit.control import event_recorder
from kubekit.control.event_recorder import EventRecorder
from kubekit.objects.events import EventSubject, EventText
from kubekit.request_errors import Forbidden
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import NOW

pytestmark = pytest.mark.looptime

JOB = EventSubject("kubeflow.org/v1", "TFJob", "default", "j", "job-uid", "tfjob-controller")


def reasons(server: ApiInMemory) -> list[str]:
    return [obj["reason"] for path, obj in server.objects.items() if "/events/" in path]


@asynccontextmanager
async def recording(
    server: ApiInMemory, busy: Callable[[], bool] = lambda: False
) -> AsyncIterator[EventRecorder]:
    """A recorder that runs during the block and is then cancelled."""
    recorder = EventRecorder(Client(server), lambda: NOW, busy, patience=30.0)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(recorder.run())
        yield recorder
        running.cancel()


async def test_an_event_is_written_on_its_object() -> None:
    server = ApiInMemory()
    async with recording(server) as recorder:
        recorder.record(JOB, EventText("TFJobFailed", "x" * 2000, "Warning"))
        await asyncio.sleep(1)

    (event,) = (obj for path, obj in server.objects.items() if "/events/" in path)
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("TFJob", "j", "job-uid")
    assert (event["type"], event["reason"], len(event["message"])) == (
        "Warning",
        "TFJobFailed",
        1024,
    )


async def test_an_event_that_cannot_be_sent_does_not_keep_others_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ApiInMemory()
    async with recording(server) as recorder:
        for number in range(5):
            recorder.record(JOB, EventText(f"Bad{number}", "half of a pair: \ud800"))
        recorder.record(JOB, EventText("Good", "m"))
        await asyncio.sleep(1)

    assert reasons(server) == ["Good"]
    assert caplog.text.count("events TFJob default/j: bug") == 1


async def test_events_still_queued_at_the_end_are_written() -> None:
    server = ApiInMemory(slow=0.05)
    async with recording(server) as recorder:
        await asyncio.sleep(0)
        for number in range(20):
            recorder.record(JOB, EventText(f"Reason{number}", "m"))

    assert sorted(reasons(server)) == sorted(f"Reason{number}" for number in range(20))


async def test_the_recorder_ends_soon_if_the_server_does_not_answer() -> None:
    server = ApiInMemory(slow=1000.0)
    start = asyncio.get_running_loop().time()
    async with recording(server) as recorder:
        await asyncio.sleep(0)
        recorder.record(JOB, EventText("Reason", "m"))
        recorder.record(JOB, EventText("Reason", "m"))
        recorder.record(JOB, EventText("Reason", "m"))

    assert asyncio.get_running_loop().time() - start < 10


async def test_an_event_that_cannot_be_written_does_not_hold_up_the_next() -> None:
    server = ApiInMemory(fail=0.5, seed=4)
    async with recording(server) as recorder:
        for number in range(40):
            recorder.record(JOB, EventText(f"Reason{number}", "m"))
        await asyncio.sleep(10)

    assert 5 < len(reasons(server)) < 40


async def test_an_event_that_repeats_is_one_event_written_at_growing_intervals() -> None:
    server = ApiInMemory()
    async with recording(server) as recorder:
        for _ in range(100):
            recorder.record(JOB, EventText("ErrResourceExists", "pod x is another's", "Warning"))
            await asyncio.sleep(2)

    (event,) = (obj for path, obj in server.objects.items() if "/events/" in path)
    assert 60 < event["count"] <= 100
    writes = [ask.method for ask in server.requests if "/events" in ask.path]
    assert writes == ["POST", *["PATCH"] * (len(writes) - 1)]
    assert len(writes) < 9


async def test_a_repeated_event_that_the_server_has_dropped_is_created_again() -> None:
    server = ApiInMemory()
    async with recording(server) as recorder:
        recorder.record(JOB, EventText("Reason", "m"))
        await asyncio.sleep(5)
        for path in [path for path in server.objects if "/events/" in path]:
            server.remove(path)
        recorder.record(JOB, EventText("Reason", "m"))
        await asyncio.sleep(5)

    assert reasons(server) == ["Reason"]


async def test_events_give_way_to_work_but_not_for_ever() -> None:
    server = ApiInMemory()
    busy = True
    async with recording(server, lambda: busy) as recorder:
        recorder.record(JOB, EventText("First", "m"))
        await asyncio.sleep(25)
        assert reasons(server) == []
        await asyncio.sleep(10)
        assert reasons(server) == ["First"]

        recorder.record(JOB, EventText("Second", "m"))
        await asyncio.sleep(1)
        busy = False
        await asyncio.sleep(1)
        assert reasons(server) == ["First", "Second"]


async def test_the_number_of_remembered_events_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "_MAX_REMEMBERED", 10)
    server = ApiInMemory()
    async with recording(server) as recorder:
        for number in range(50):
            recorder.record(JOB, EventText(f"Reason{number}", "m"))
        await asyncio.sleep(5)
        recorder.record(JOB, EventText("Reason0", "m"))
        recorder.record(JOB, EventText("Reason49", "m"))
        await asyncio.sleep(5)

    assert reasons(server).count("Reason0") == 2
    assert reasons(server).count("Reason49") == 1


async def test_an_awaited_write_returns_when_the_event_is_there() -> None:
    server = ApiInMemory()

    await EventRecorder(Client(server), lambda: NOW).write(JOB, EventText("Reason", "m"))

    assert reasons(server) == ["Reason"]


async def test_an_awaited_write_raises_and_its_retry_is_no_repetition() -> None:
    server = ApiInMemory()
    server.forbidden = {"POST events"}
    recorder = EventRecorder(Client(server), lambda: NOW)
    with pytest.raises(Forbidden):
        await recorder.write(JOB, EventText("Reason", "m"))
    server.forbidden = set()

    await recorder.write(JOB, EventText("Reason", "m"))

    (event,) = (obj for path, obj in server.objects.items() if "/events/" in path)
    assert (event["reason"], event["count"]) == ("Reason", 1)


async def test_an_awaited_write_that_repeats_raises_the_count() -> None:
    server = ApiInMemory()
    recorder = EventRecorder(Client(server), lambda: NOW)

    for _ in range(3):
        await recorder.write(JOB, EventText("Reason", "m"))

    (event,) = (obj for path, obj in server.objects.items() if "/events/" in path)
    assert event["count"] == 3
