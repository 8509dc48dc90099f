"""What was said about a job and its pods: `get -e`.

One list of the namespace's events; those of other objects are left out here, since a server can
select by one object only and a job is many.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec resolves annotations at run time
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import EVENTS
from muster.api.meta import Object, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Collection

    from muster.kube.blocking_client import BlockingClient


class _About(Object, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Event(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    involved_object: _About = _About()
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


_EVENTS = EVENTS.read_as(_Event)


class EventRow(NamedTuple):
    """One event, as a person reads it."""

    source: str
    type: str
    at: datetime | None
    message: str


def about(
    client: BlockingClient,
    namespace: str,
    uids: Collection[str],
    group: str = "",
    since: datetime | None = None,
) -> list[EventRow]:
    """Events about the objects with these uids and the pod group of this name, oldest first.

    The group is known by its name alone; what was said before `since` was of an older job's.
    """

    def meant(event: _Event) -> bool:
        if event.involved_object.uid in uids:
            return True
        about, at = event.involved_object, _at(event)
        ours = since is None or at is None or at >= since
        return bool(group) and about.kind == "PodGroup" and about.name == group and ours

    found = filter(meant, client.list(_EVENTS, namespace, page=0).items)
    rows = [(_at(event), event) for event in found]
    rows.sort(key=lambda row: (row[0].timestamp() if row[0] else 0.0, row[1].metadata.name))
    return [
        EventRow(
            f"{event.involved_object.kind.lower()}/{event.involved_object.name}",
            event.type,
            at,
            f"[{event.reason}] {event.message}",
        )
        for at, event in rows
    ]


def _at(event: _Event) -> datetime | None:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp
