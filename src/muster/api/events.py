"""Events as plain values: what happened, to what, said by whom.

`control.tell` writes them; the scheduler writes its own, since its news of gangs have a budget.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import timestamp

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from muster.api.kinds import Kind
    from muster.api.meta import ObjectMeta, Raw

MAX_MESSAGE = 1024
"""Characters of a message that Kubernetes takes."""


class EventText(NamedTuple):
    """What is worth an event."""

    reason: str
    message: str
    type: str = "Normal"


class EventSubject(NamedTuple):
    """Whom an event is about, and who says it, perhaps on which host."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    component: str
    host: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def event_subject(
    kind: Kind[Any], meta: ObjectMeta, component: str, host: str = ""
) -> EventSubject:
    """An object as the subject of an event."""
    place = (meta.namespace, meta.name, meta.uid)
    return EventSubject(kind.api_version, kind.kind, *place, component, host)


def event_manifest(subject: EventSubject, news: EventText, at: datetime) -> Raw:
    """The event to create; what is not in a namespace has its events in `default`."""
    stamp = timestamp(at)
    source = {"component": subject.component}
    if subject.host:
        source["host"] = subject.host
    return {
        "metadata": {
            "name": f"{subject.name[:200]}.{secrets.token_hex(8)}",
            "namespace": subject.namespace or "default",
        },
        "involvedObject": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": news.type,
        "reason": news.reason,
        "message": news.message[:MAX_MESSAGE],
        "source": source,
        "reportingComponent": subject.component,
        "reportingInstance": subject.host or subject.component,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
