"""The two forms of an event: core/v1, as it is stored, and events.k8s.io/v1, of newer recorders.

Pure; used by `objects.py`. It is the same object under both; only its fields have other names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.meta import Raw

GROUP = "events.k8s.io"
_OLD_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES = {old: new for new, old in _OLD_NAMES.items()}


def to_core(event: Raw) -> Raw:
    """An event as it is stored; it still says in which version it came."""
    return {_OLD_NAMES.get(name, name): value for name, value in event.items()}


def from_core(event: Raw, api_version: str) -> Raw:
    """A stored event as events.k8s.io shows it."""
    renamed = {_NEW_NAMES.get(name, name): value for name, value in event.items()}
    return renamed | {"apiVersion": api_version}
