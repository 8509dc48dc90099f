"""Publishes the line of waiting gangs: the ConfigMap `muster-line`, and the gauges.

At most one write a second, and none while nothing changes. The first write replaces the line of an
earlier process, even by an empty one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from muster.api.kinds import CONFIG_MAPS
from muster.api.meta import Key, timestamp
from muster.errors import MusterError, NotFound
from muster.scheduler import metrics, waiting_line_format
from muster.scheduler.decisions.reasons import NOT_ENOUGH_MEMBERS
from muster.scheduler.gangs.phase import is_half_bound
from muster.scheduler.waiting_line_format import WaitingGang

if TYPE_CHECKING:
    from muster.kube.client import Client
    from muster.scheduler.gangs.phase import GangRecord
    from muster.scheduler.state import State

log = logging.getLogger(__name__)

PUBLISH_EVERY = 1.0
RETRY_SECONDS = 30.0
MAX_ROWS = 1000
"""Rows published: a ConfigMap holds a megabyte."""


def waiting_gangs(state: State, now: float) -> list[WaitingGang]:
    """The waiting gangs in the order of their tries, without gangs that are being created."""
    rows = []
    waiting = [
        key
        for key, record in state.records.items()
        if record.rest.reason is not None and not _is_gathering(state, record, now)
    ]
    line = sorted(map(state.place_of, waiting))
    for number, place in enumerate(line[:MAX_ROWS], start=1):
        gang, record = state.index.gangs.get(place.key), state.records[place.key]
        rest = record.rest
        if gang is None or rest.reason is None:
            continue
        members = state.members(gang)
        since = (now if rest.since is None else rest.since) + state.wall_offset
        rows.append(
            WaitingGang(
                gang=str(place.key),
                place=number,
                code=rest.reason.code,
                reason=rest.reason.text,
                since=timestamp(datetime.fromtimestamp(since, UTC)),
                dialect=place.key.dialect,
                priority=-place.neg_priority,
                min_member=gang.terms.min if gang.terms else 1,
                bound=len(members.bound),
                pending=len(members.pending),
                held=len(state.snapshot.held_for.get(place.key, ())),
            )
        )
    return rows


def _is_gathering(state: State, record: GangRecord, now: float) -> bool:
    """Whether members are only missing because the gang is being created."""
    rest = record.rest
    is_new = rest.since is None or now - rest.since < state.settings.report_after
    return is_new and rest.reason is not None and rest.reason.code == NOT_ENOUGH_MEMBERS


def encode_line(line: list[WaitingGang]) -> dict[str, str]:
    """The ConfigMap's data."""
    return {waiting_line_format.DATA_KEY: msgspec.json.encode(line).decode()}


def set_gauges(state: State) -> None:
    """Set the gauges."""
    metrics.WAITING.clear()
    waiting = (record.rest.reason for record in state.records.values())
    codes = Counter(reason.code for reason in waiting if reason is not None)
    for code, n in codes.items():
        metrics.WAITING.labels(code).set(n)
    metrics.ROOMS_HELD.set(sum(map(len, state.snapshot.held_for.values())))
    half_bound = (is_half_bound(record.phase) for record in state.records.values())
    metrics.HALF_BOUND.set(sum(half_bound))


class LinePublisher:
    """Writes the line when it has changed."""

    def __init__(self, client: Client, state: State, namespace: str, *, quiet: bool) -> None:
        self._client, self._state = client, state
        self._key, self._quiet = Key(namespace, waiting_line_format.CONFIG_MAP), quiet
        self._changed = asyncio.Event()
        self._written: dict[str, str] | None = None

    def changed(self) -> None:
        """Something about the line may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        loop = asyncio.get_running_loop()
        # Another process may have written since the last term. The loop decides first, so that a
        # line that is still waiting is not replaced by an empty one.
        self._written = None
        self._changed.set()
        await asyncio.sleep(PUBLISH_EVERY)
        while True:
            await self._changed.wait()
            self._changed.clear()
            set_gauges(self._state)
            now = loop.time()
            if any(_is_gathering(self._state, row, now) for row in self._state.records.values()):
                self._changed.set()
            done = self._quiet or await self._publish(waiting_gangs(self._state, now))
            await asyncio.sleep(PUBLISH_EVERY if done else RETRY_SECONDS)

    async def _publish(self, line: list[WaitingGang]) -> bool:
        data = encode_line(line)
        if data == self._written:
            return True
        try:
            await self._write(data, create=bool(line))
        except MusterError as error:
            log.warning("the line is not published: %s", error)
            self._changed.set()
            return False
        self._written = data
        return True

    async def _write(self, data: dict[str, str], *, create: bool) -> None:
        try:
            await self._client.patch(CONFIG_MAPS, self._key, {"data": data})
        except NotFound:
            if not create:  # until a gang waits, no ConfigMap is needed
                return
            metadata = {"name": self._key.name, "namespace": self._key.namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._client.create(CONFIG_MAPS, body)
