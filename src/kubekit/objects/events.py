"""Events as plain values: a text, the object it is about, and the component that reports it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.meta import timestamp

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import ObjectMeta, Raw

MAX_MESSAGE = 1024
"""Characters of a message; Kubernetes rejects more."""


class EventText(NamedTuple):
    """The reason, message and type of an event."""

    reason: str
    message: str
    type: str = "Normal"


class EventSubject(NamedTuple):
    """The object of an event, and the component that reports it, perhaps with its host."""

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


def event_manifest(subject: EventSubject, text: EventText, at: datetime) -> Raw:
    """The event to create; events of cluster-scoped objects are in `default`."""
    stamp = timestamp(at)
    source = {"component": subject.component}
    if subject.host:
        source["host"] = subject.host
    about = {field: getattr(subject, field) for field in ("kind", "namespace", "name", "uid")}
    return {
        "metadata": {
            # A name has at most 253 characters.
            "name": f"{subject.name[:200]}.{secrets.token_hex(8)}",
            "namespace": subject.namespace or "default",
        },
        "involvedObject": {"apiVersion": subject.api_version, **about},
        "type": text.type,
        "reason": text.reason,
        "message": text.message[:MAX_MESSAGE],
        "source": source,
        "reportingComponent": subject.component,
        "reportingInstance": subject.host or subject.component,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
