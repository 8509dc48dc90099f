"""Publishes the line of waiting gangs and the held room: the ConfigMap `muster-line`, and gauges.

At most one write a second, and none while nothing changes. The first write replaces the line of an
earlier process, even by an empty one.

Promise: whatever names and amounts gangs bring, the ConfigMap stays below the server's limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubekit.errors import MusterError
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key, timestamp
from kubekit.objects.quantity import format_amount
from kubekit.request_errors import NotFound
from kubekit.telemetry.metrics import gauge
from muster.contract import waiting_line_format
from muster.contract.gang_dialects import SINGLE_POD
from muster.contract.waiting_line_format import HeldRoom, WaitingGang
from muster.scheduler.cluster.pod_class import PODS
from muster.scheduler.decisions.reasons import NOT_ENOUGH_MEMBERS
from muster.scheduler.gangs.phase import is_half_bound
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kubekit.client.client import Client
    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.snapshot import Slot
    from muster.scheduler.gangs.phase import GangRecord
    from muster.scheduler.gangs.waiting_line import LinePosition
    from muster.scheduler.state import State

log = logging.getLogger(__name__)

WAITING = gauge("gangs_waiting", "Gangs that wait", "reason")
ROOMS_HELD = gauge("rooms_held", "Holds for missing members")
HALF_BOUND = gauge("gangs_half_bound", "Gangs that have some members running and lack others")

PUBLISH_EVERY = 1.0
RETRY_SECONDS = 30.0
MAX_ROWS = 1000
"""Rows published of the line, and of the held room."""
MAX_LINE, MAX_HOLDS = 600 << 10, 300 << 10
"""Bytes of both together: a ConfigMap holds a megabyte, and one that is refused is lost to all."""
MAX_ROW = 8 << 10
MAX_NAME = 320
"""Characters of a gang's name, and bytes in a row that is cut; names of objects have less."""
MAX_RESOURCES = 16
"""Resources that a row names: a pod may request thousands that do not exist."""


def waiting_gangs(state: State, now: float) -> list[WaitingGang]:
    """The waiting gangs in the order of their tries, without gangs that are being created.

    The pods of one job that wait one by one are one row, with the place, the name and the reason of
    the first.
    """
    waiting = [
        key
        for key, record in state.records.items()
        if record.rest.reason is not None and not _is_gathering(state, record, now)
    ]
    entries: dict[object, list[LinePosition]] = {}
    for place in sorted(map(state.place_of, waiting)):
        entries.setdefault(_entry(state, place.key), []).append(place)
    rows: list[WaitingGang] = []
    for number, places in enumerate(islice(entries.values(), MAX_ROWS), start=1):
        with isolated("line", places[0].key):
            row = _waiting_gang(state, number, places, now)
            rows += [row] if row is not None else []
    return rows


def _entry(state: State, key: GangKey) -> object:
    """What stands in line: a gang, or the owner of pods that are in none."""
    gang = state.index.gangs.get(key)
    if key.dialect != SINGLE_POD.name or gang is None:
        return key
    owners = (pod.metadata.controller for pod in gang.pods.values())
    uids = {owner.uid for owner in owners if owner is not None and owner.uid}
    return (key.namespace, uids.pop()) if len(uids) == 1 else key


def _waiting_gang(
    state: State, number: int, places: Sequence[LinePosition], now: float
) -> WaitingGang | None:
    """The row of one entry; None if its first gang does not wait any more."""
    place = places[0]
    gang, rest = state.index.gangs.get(place.key), state.records[place.key].rest
    if gang is None or rest.reason is None:
        return None
    members = state.members(gang)
    since = (now if rest.since is None else rest.since) + state.wall_offset
    return WaitingGang(
        gang=str(place.key)[:MAX_NAME],
        place=number,
        code=rest.reason.code,
        reason=rest.reason.for_administrator,
        since=timestamp(datetime.fromtimestamp(since, UTC)),
        dialect=place.key.dialect,
        priority=-place.neg_priority,
        min_member=gang.terms.min if gang.terms else 1,
        bound=len(members.bound),
        pending=len(members.pending) + len(places) - 1,
        held=len(state.snapshot.held_for.get(place.key, ())),
        short=_amounts(dict(rest.reason.short)),
    )


def held_rooms(state: State) -> list[HeldRoom]:
    """The room that is held, by gang and node."""
    slots: dict[tuple[GangKey, str], list[Slot]] = {}
    for key, held in sorted(state.snapshot.held_for.items()):
        if len(slots) >= MAX_ROWS:
            break
        for slot in held.values():
            slots.setdefault((key, slot.node), []).append(slot)
    rows: list[HeldRoom] = []
    for (key, node), room in sorted(slots.items())[:MAX_ROWS]:
        with isolated("line", key):
            rows.append(_held_room(state, key, node, room))
    return rows


def _held_room(state: State, key: GangKey, node: str, slots: Iterable[Slot]) -> HeldRoom:
    requests: Counter[str] = Counter()
    for slot in slots:
        requests.update({name: n for name, n in slot.cls.requests.items() if name != PODS})
    ends = [slot.hold.until for slot in slots if slot.hold is not None]
    until = datetime.fromtimestamp(max(ends) + state.wall_offset, UTC)
    return HeldRoom(
        gang=str(key)[:MAX_NAME],
        node=node,
        until=timestamp(until),
        dialect=key.dialect,
        pods=len(ends),
        requests=_amounts(requests),
    )


def _amounts(resources: Mapping[str, int]) -> dict[str, str]:
    present = ((name, n) for name, n in resources.items() if n)
    return {name: format_amount(name, n) for name, n in islice(present, MAX_RESOURCES)}


def _is_gathering(state: State, record: GangRecord, now: float) -> bool:
    """Whether members are only missing because the gang is being created."""
    rest = record.rest
    is_new = rest.since is None or now - rest.since < state.settings.report_after
    return is_new and rest.reason is not None and rest.reason.code == NOT_ENOUGH_MEMBERS


def encode_line(line: list[WaitingGang], holds: Iterable[HeldRoom] = ()) -> dict[str, str]:
    """The ConfigMap's data."""
    return {
        waiting_line_format.DATA_KEY: _encode(line, MAX_LINE),
        waiting_line_format.HOLDS_KEY: _encode(list(holds), MAX_HOLDS),
    }


def _encode(rows: Sequence[WaitingGang | HeldRoom], most: int) -> str:
    """The rows in at most so many bytes: long ones are cut, each to the same share if need be."""
    bodies = _bodies(rows, MAX_ROW)
    if sum(len(body) + 1 for body in bodies) >= most:
        bodies = _bodies(rows, most // len(rows) - 2)
    left, kept = most, []
    for body in bodies:
        left -= len(body) + 1
        if left < 1:
            break
        kept.append(body)
    return f"[{b','.join(kept).decode()}]"


def _bodies(rows: Sequence[WaitingGang | HeldRoom], most: int) -> list[bytes]:
    bodies: list[bytes] = []
    for row in rows:
        with isolated("line", row.gang):
            bodies.append(_fitted(row, most))
    return bodies


def _fitted(row: WaitingGang | HeldRoom, most: int) -> bytes:
    """A row in so many bytes, unless its names alone are longer."""
    body = msgspec.json.encode(row)
    if len(body) <= most:
        return body
    gang = _clipped(row.gang, MAX_NAME)
    if isinstance(row, HeldRoom):
        return msgspec.json.encode(replace(row, gang=gang, requests={}))
    bare = replace(row, gang=gang, reason="", short={})
    room = max(0, most - len(msgspec.json.encode(bare)))
    return msgspec.json.encode(replace(bare, reason=_clipped(row.reason, room)))


def _clipped(text: str, most: int) -> str:
    """The beginning of a text, in so many bytes of JSON."""
    size = len(msgspec.json.encode(text)) - 2
    while size > most:
        text = text[: len(text) * most // size]
        size = len(msgspec.json.encode(text)) - 2
    return text


def set_gauges(state: State) -> None:
    """Set the gauges."""
    WAITING.clear()
    waiting = (record.rest.reason for record in state.records.values())
    codes = Counter(reason.code for reason in waiting if reason is not None)
    for code, n in codes.items():
        WAITING.labels(code).set(n)
    ROOMS_HELD.set(sum(map(len, state.snapshot.held_for.values())))
    half_bound = (is_half_bound(record.phase) for record in state.records.values())
    HALF_BOUND.set(sum(half_bound))


class LinePublisher:
    """Writes the line when it has changed."""

    def __init__(
        self,
        client: Client,
        state: State,
        namespace: str,
        *,
        quiet: bool,
        moved: Callable[[Sequence[WaitingGang]], None] = lambda line: None,
    ) -> None:
        self._client, self._state, self._moved = client, state, moved
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
            await self._wait_for_change(loop.time())
            self._changed.clear()
            set_gauges(self._state)
            now = loop.time()
            if any(_is_gathering(self._state, row, now) for row in self._state.records.values()):
                self._changed.set()
            line = waiting_gangs(self._state, now)
            self._moved(line)
            done = self._quiet or await self._publish(line, held_rooms(self._state))
            await asyncio.sleep(PUBLISH_EVERY if done else RETRY_SECONDS)

    async def _wait_for_change(self, now: float) -> None:
        """Until something changed, or a hold has run out: that need not change a reason."""
        held = self._state.snapshot.held_for.values()
        ends = [slot.hold.until for slots in held for slot in slots.values() if slot.hold]
        try:
            async with asyncio.timeout(max(0.0, min(ends) - now) + PUBLISH_EVERY if ends else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _publish(self, line: list[WaitingGang], holds: list[HeldRoom]) -> bool:
        data = encode_line(line, holds)
        if data == self._written:
            return True
        try:
            await self._write(data, create=bool(line or holds))
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
            if not create:  # until a gang waits or holds room, no ConfigMap is needed
                return
            metadata = {"name": self._key.name, "namespace": self._key.namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._client.create(CONFIG_MAPS, body)
