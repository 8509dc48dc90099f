"""Events about a job and its pods.

All events of the namespace are listed and filtered here: a field selector can name one object, and
a job has many.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec resolves annotations at run time
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import EVENTS
from muster.api.meta import Object, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Collection

    from muster.kube.blocking_client import BlockingClient


class _Involved(Object, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Event(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    involved_object: _Involved = _Involved()
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
    """Events about the objects with these UIDs and the pod group of this name, oldest first.

    Only the name of the group is known: an event before `since` is about the group of an older job.
    """

    def is_about(event: _Event) -> bool:
        involved, time = event.involved_object, _time(event)
        if involved.uid in uids:
            return True
        recent = since is None or time is None or time >= since
        return bool(group) and involved.kind == "PodGroup" and involved.name == group and recent

    def order(event: _Event) -> tuple[float, str]:
        time = _time(event)
        return (time.timestamp() if time else 0.0, event.metadata.name)

    events = [event for event in client.list(_EVENTS, namespace, page=0).items if is_about(event)]
    return [
        EventRow(
            f"{event.involved_object.kind.lower()}/{event.involved_object.name}",
            event.type,
            _time(event),
            f"[{event.reason}] {event.message}",
        )
        for event in sorted(events, key=order)
    ]


def _time(event: _Event) -> datetime | None:
    # Old clients set lastTimestamp, events.k8s.io clients eventTime; some set neither.
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp
