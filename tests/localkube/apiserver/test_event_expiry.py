"""Events are deleted one hour after they were last seen, in batches."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubekit.objects.meta import timestamp
from localkube.apiserver.housekeeping import EventExpiry
from localkube.apiserver.kinds.namespaces_nodes_events import EVENTS_KEPT
from tests.localkube.apiserver.running_server import ApiClient, running_server

EVENTS = "/api/v1/namespaces/default/events"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.start, self.passed = datetime.now(UTC), 0.0

    def wall(self) -> datetime:
        return self.start + timedelta(seconds=self.passed)

    def timer(self) -> float:
        return self.passed


def event(name: str, **fields: Any) -> Any:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R", **fields}


async def names(api: ApiClient) -> list[str]:
    listing = (await api.send("GET", EVENTS)).body
    return [item["metadata"]["name"] for item in listing["items"]]


async def expire_all(expiry: EventExpiry) -> int:
    """Delete all expired events; returns the number of batches."""
    batches = 1
    while await expiry.expire():
        batches += 1
    return batches


async def test_an_event_lives_for_an_hour_after_its_last_write(api: ApiClient) -> None:
    clock = Clock()
    expiry = EventExpiry(api.server.store, clock.wall, clock.timer)
    future = timestamp(clock.wall() + timedelta(days=365))
    for name, fields in (("once", {}), ("again", {}), ("lies", {"lastTimestamp": future})):
        assert (await api.send("POST", EVENTS, event(name, **fields))).status == 201
    clock.passed = EVENTS_KEPT - 1
    await expire_all(expiry)
    assert await names(api) == ["again", "lies", "once"]
    again = event("again", count=2)
    assert (await api.send("PUT", f"{EVENTS}/again", again)).status == 200

    clock.passed = EVENTS_KEPT + 1
    await expire_all(expiry)

    assert await names(api) == ["again"]
    clock.passed = 2 * EVENTS_KEPT
    await expire_all(expiry)
    assert await names(api) == []


async def test_events_of_an_earlier_run_expire_in_batches_by_the_time_they_were_last_seen(
    tmp_path: Path,
) -> None:
    clock = Clock()
    later = timestamp(clock.start + timedelta(minutes=30))
    future = timestamp(clock.start + timedelta(days=3650))
    bodies = [event(f"old-{i:03}") for i in range(250)] + [event("seen", lastTimestamp=later)]
    bodies.append(event("unborn", lastTimestamp=future))
    async with running_server(tmp_path) as api:
        await asyncio.gather(*(api.send("POST", EVENTS, body) for body in bodies))

    clock.start += timedelta(minutes=50)
    async with running_server(tmp_path) as api:
        expiry = EventExpiry(api.server.store, clock.wall, clock.timer)
        await expiry.read_earlier()
        await expire_all(expiry)
        assert len(await names(api)) == 252

        clock.passed = 11 * 60
        assert await expire_all(expiry) == 3
        assert await names(api) == ["seen", "unborn"]
        clock.passed = EVENTS_KEPT + 1
        await expire_all(expiry)
        assert await names(api) == []
