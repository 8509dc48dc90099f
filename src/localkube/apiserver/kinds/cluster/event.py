"""Event, in two forms: core/v1, in which it is stored, and events.k8s.io/v1 of newer recorders.

It is the same object in both forms; some of its fields have other names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, invalid_value, required
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import age, number, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_GROUP = "events.k8s.io"
_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}
_REQUIRED = ("eventTime", "reportingComponent", "reportingInstance", "action", "reason")


def _to_core(event: Raw) -> Raw:
    """An event as it is stored; its apiVersion still names the form it came in."""
    return {_CORE_NAMES.get(name, name): value for name, value in event.items()}


def _from_core(event: Raw, api_version: str) -> Raw:
    renamed = {_NEW_NAMES.get(name, name): value for name, value in event.items()}
    return renamed | {"apiVersion": api_version}


def _check(event: Raw) -> Causes:
    if event["apiVersion"].startswith(_GROUP):
        yield from _check_new_form(event)
        return
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    namespace = event["metadata"].get("namespace", "")
    if about != namespace and (about or namespace != "default"):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


def _check_new_form(event: Raw) -> Causes:
    for field in _REQUIRED:
        if not event.get(field):
            yield required(_NEW_NAMES.get(field, field))
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", event.get("type") or "", "has invalid value: ")


def _first_seen(event: Raw, now: datetime) -> str:
    return age(text(event, "firstTimestamp") or text(event, "eventTime"), now)


def _last_seen(event: Raw, now: datetime) -> str:
    last = text(event, "lastTimestamp") or text(event, "series.lastObservedTime")
    return age(last, now) if last else _first_seen(event, now)


def _object(event: Raw, now: datetime) -> str:
    kind, name = text(event, "involvedObject.kind").lower(), text(event, "involvedObject.name")
    return f"{kind}/{name}" if name else kind


def _count(event: Raw, now: datetime) -> int:
    return number(event, "count") or number(event, "series.count") or 1


def _source(event: Raw, now: datetime) -> str:
    """The component that reported it, and its host."""
    component, host = text(event, "source.component"), text(event, "source.host")
    if not component and not host:
        component, host = text(event, "reportingComponent"), text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


EVENTS = Resource(
    "", "v1", "events", "Event", short=("ev",), create_on_update=True,
    fields=(
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
    ),
    strategy=Strategy(
        check=_check,
        limited=False,
        columns={
            "Last Seen": _last_seen,
            "Type": text_at("type"),
            "Reason": text_at("reason"),
            "Object": _object,
            "Subobject+": text_at("involvedObject.fieldPath"),
            "Source+": _source,
            "Message": lambda event, now: text(event, "message").strip(),
            "First Seen+": _first_seen,
            "Count+": _count,
            "Name+": text_at("metadata.name"),
        },
    ),
)  # fmt: skip
NEW_EVENTS = replace(
    EVENTS,
    group=_GROUP,
    stored_in_group="",
    strategy=replace(EVENTS.strategy, to_stored=_to_core, from_stored=_from_core),
)
