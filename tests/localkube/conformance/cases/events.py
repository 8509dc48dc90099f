"""Events in both of their forms: core/v1 and events.k8s.io/v1 are the same objects."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import NS, delete, get, patch, post, put
from tests.localkube.conformance.transcript import STRATEGIC, Case

OLD = f"{NS}/events"
NEW = "/apis/events.k8s.io/v1/namespaces/$ns/events"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
WHEN = "2026-01-01T00:00:00.000000Z"


def event(name: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "eventTime": WHEN,
        "reportingController": "x.io/me",
        "reportingInstance": "me-1",
        "action": "Binding",
        "reason": "Bound",
        "regarding": {"kind": "Pod", "namespace": "$ns", "name": "p"},
        "note": "it is so",
        "type": "Normal",
        **more,
    }


def old(name: str = "b", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "$ns", "name": "p"},
        "message": "it was so",
        "reason": "Started",
        "source": {"component": "me", "host": "here"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:01Z",
        "count": 2,
        "type": "Normal",
        **more,
    }


CASES = [
    Case(
        "events in both forms",
        [
            post(NEW, event()),
            post(OLD, old()),
            get(f"{OLD}/a"),
            get(f"{NEW}/a"),
            get(f"{OLD}/b"),
            get(f"{NEW}/b"),
            get(OLD),
            get(NEW),
            get(NEW, accept=TABLE),
            get(f"{NEW}?watch=1&timeoutSeconds=1"),
            patch(f"{NEW}/a", {"series": {"count": 2, "lastObservedTime": WHEN}}, STRATEGIC),
            get(f"{OLD}/a"),
            post(f"{NEW}?dryRun=All", event("c")),
            get(f"{OLD}?fieldSelector=reason%3DBound"),
            delete(f"{NEW}/a"),
            get(f"{OLD}/a"),
        ],
        ("zero-values", "column-descriptions"),
    ),
    Case(
        "times in other zones",
        [
            post(NEW, event(eventTime="2026-01-01T01:00:00.000000+01:00")),
            post(OLD, old(lastTimestamp="2026-01-01T00:00:01.5-02:00")),
            get(f"{OLD}/a"),
            get(f"{OLD}/b"),
        ],
        ("zero-values",),
    ),
    Case(
        "events with something missing",
        [
            post(NEW, event(reportingController="")),
            post(NEW, event(action="")),
            post(NEW, event(reason="")),
            post(NEW, event(eventTime=None)),
            post(NEW, event(type="Odd")),
            post(NEW, event(regarding={"namespace": "other"})),
            post(NEW, {"metadata": {"name": "a"}}),
            post(f"{NEW}?fieldValidation=Strict", old()),
            put(f"{NEW}/z", event("z")),
        ],
        ("wording", "causes", "zero-values"),
    ),
]
