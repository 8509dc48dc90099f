"""Events about a job and its pods, as a person reads them."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec resolves annotations at run time
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.meta import Object, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class _Involved(Object, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    involved_object: _Involved = _Involved()
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class EventRow(NamedTuple):
    """One event, as a person reads it."""

    source: str
    type: str
    at: datetime | None
    message: str


def rows_about(
    events: Iterable[Event],
    uids: Collection[str],
    group: str = "",
    since: datetime | None = None,
) -> list[EventRow]:
    """Events about the objects with these UIDs and the pod group of this name, oldest first.

    Only the name of the group is known: an event before `since` is about the group of an older job.
    """

    def is_about(event: Event) -> bool:
        involved, time = event.involved_object, _time(event)
        if involved.uid in uids:
            return True
        recent = since is None or time is None or time >= since
        return bool(group) and involved.kind == "PodGroup" and involved.name == group and recent

    def order(event: Event) -> tuple[float, str]:
        time = _time(event)
        return (time.timestamp() if time else 0.0, event.metadata.name)

    return [
        EventRow(
            f"{event.involved_object.kind.lower()}/{event.involved_object.name}",
            event.type,
            _time(event),
            f"[{event.reason}] {event.message}",
        )
        for event in sorted(filter(is_about, events), key=order)
    ]


def _time(event: Event) -> datetime | None:
    # Old clients set lastTimestamp, events.k8s.io clients eventTime; some set neither.
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp
