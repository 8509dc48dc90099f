"""Event, in two forms: core/v1, in which it is stored, and events.k8s.io/v1 of newer recorders.

It is the same object in both; only some of its fields have other names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views.cells import age, name_of, number, text

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

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


def _check(event: Raw) -> api_errors.Causes:
    if event["apiVersion"].startswith(_GROUP):
        yield from _check_new_form(event)
        return
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    namespace = event["metadata"].get("namespace", "")
    if about != namespace and (about or namespace != "default"):
        detail = "does not match event.namespace"
        yield api_errors.invalid_value("involvedObject.namespace", about, detail)


def _check_new_form(event: Raw) -> api_errors.Causes:
    for field in _REQUIRED:
        if not event.get(field):
            yield api_errors.required(_NEW_NAMES.get(field, field))
    if event.get("type") not in ("Normal", "Warning"):
        yield api_errors.invalid_value("type", event.get("type") or "", "has invalid value: ")


def _cells(event: Raw, now: datetime) -> list[Any]:
    first = text(event, "firstTimestamp") or text(event, "eventTime")
    last = text(event, "lastTimestamp") or text(event, "series.lastObservedTime", first)
    kind, name = text(event, "involvedObject.kind"), text(event, "involvedObject.name")
    return [
        age(last, now),
        text(event, "type"),
        text(event, "reason"),
        f"{kind.lower()}/{name}" if name else kind.lower(),
        text(event, "involvedObject.fieldPath"),
        _source(event),
        text(event, "message").strip(),
        age(first, now),
        number(event, "count") or number(event, "series.count") or 1,
        name_of(event),
    ]


def _source(event: Raw) -> str:
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
        columns=(
            "Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message",
            "First Seen+", "Count+", "Name+",
        ),
        cells=_cells,
    ),
)  # fmt: skip
NEW_EVENTS = replace(
    EVENTS,
    group=_GROUP,
    stored_in_group="",
    strategy=replace(EVENTS.strategy, to_stored=_to_core, from_stored=_from_core),
)
