"""A job's status: read leniently, written as a merge patch of the changed fields only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.objects.meta import Raw, merge_patch
from muster.jobs.job_status import JobStatus, ReplicaStatus, Waiting, decode_status, status_change
from tests.api_in_memory import merged

WRITTEN: Raw = {
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "TFJobRunning",
            "message": "m",
            "lastUpdateTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ],
    "replicaStatuses": {"Worker": {"active": 2, "selector": "a=b"}, "PS": {}},
    "startTime": "2026-01-02T03:04:05Z",
    "observedGeneration": 3,
    "restarts": 4,
    "launcherAttempt": 1,
    "formed": True,
    "failures": {"worker-0": {"count": 2, "at": "2026-01-02T03:04:05Z"}},
    "restarted": {"j-worker-0": 1},
    "whole": {"Worker": 2},
    "unclaimed": ["x"],
    "replaced": ["uid-1"],
    "waiting": {"reason": "BackOff", "message": "m"},
    "phase": "Running",
    "state": "Running",
}


def test_a_status_of_the_operator_is_read_and_written_unchanged() -> None:
    assert status_change(JobStatus(), decode_status(WRITTEN)) == WRITTEN


JUNK: list[Any] = [None, "junk", 5.5, [5], {"a": 5.5}]


@pytest.mark.parametrize(
    ("field", "junk"),
    [(f, junk) for f in WRITTEN for junk in JUNK if not isinstance(WRITTEN[f], type(junk))],
)
def test_a_field_of_another_form_is_read_as_absent_and_the_others_are_read(
    field: str, junk: Any
) -> None:
    rest = {name: value for name, value in WRITTEN.items() if name != field}

    status = decode_status({**WRITTEN, field: junk})

    assert status == decode_status(rest)


@pytest.mark.parametrize("junk", [None, "junk", 5, [], [1]], ids=repr)
def test_a_status_that_is_not_an_object_is_empty(junk: object) -> None:
    assert decode_status(junk) == JobStatus()


def test_conditions_of_another_form_are_dropped_and_the_others_kept() -> None:
    good = {"type": "Created", "status": "True"}
    rows = [{"type": ["x"]}, good, {"type": "Failed", "status": {}}, "x", {}, {"type": ""}]

    status = decode_status({"conditions": rows, "restarts": 2})

    assert [row.type for row in status.conditions] == ["Created"]
    assert status.restarts == 2


def test_fields_of_other_writers_are_written_back_or_left_alone() -> None:
    row = {"type": "Created", "status": "True", "colour": "green"}
    before = decode_status({"conditions": [row], "lastReconcileTime": "yesterday"})
    (condition,) = before.conditions
    after = replace(before, conditions=(condition, replace(condition, type="Running")))

    change = status_change(before, after)

    assert change == {"conditions": [row, {**row, "type": "Running"}]}


def test_a_time_in_another_notation_is_not_a_change() -> None:
    before = decode_status({"startTime": "2026-01-02T04:04:05.000+01:00"})
    after = replace(before, start_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    assert status_change(before, after) == {}


@pytest.mark.parametrize("time", ["2026-01-02T03:04:05", "2026-01-02", "yesterday", 5])
def test_a_time_without_a_zone_is_read_as_absent(time: object) -> None:
    assert decode_status({"startTime": time}).start_time is None


def test_a_field_that_is_emptied_is_removed() -> None:
    before = decode_status(WRITTEN)
    counts = {"Worker": ReplicaStatus(), "PS": ReplicaStatus()}
    after = replace(before.without_transient(), replica_statuses=counts)

    change = status_change(before, after)

    cleared = dict.fromkeys(("waiting", "replaced", "failures", "restarted", "whole"))
    worker = {"active": None, "selector": None}
    assert change == {**cleared, "replicaStatuses": {"Worker": worker}}


def test_waiting_with_other_content_is_read_as_far_as_it_goes() -> None:
    assert decode_status({"waiting": {"reason": "R", "more": 1}}).waiting == Waiting("R")


def test_the_status_of_a_job_that_ended_says_when() -> None:
    row = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    assert decode_status({"conditions": [row]}).finished_at == at
    assert decode_status({"conditions": [{**row, "status": "False"}]}).finished_at is None
    assert decode_status({"conditions": [{**row, "lastTransitionTime": "x"}]}).finished_at is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"a": 1}),
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 2}}),
        ({"a": [1]}, {"a": [1, 2], "x": {"y": {"z": 1}}}),
        ({"a": {"b": 1}}, {"a": 5}),
        ({"a": 5}, {"a": {}}),
    ],
)
def test_a_merge_patch_applied_to_the_old_gives_the_new(old: Raw, new: Raw) -> None:
    assert merged(old, merge_patch(old, new)) == new


def test_an_unchanged_status_is_not_written() -> None:
    assert merge_patch({"a": {"b": 1}}, {"a": {"b": 1}}) == {}
    assert status_change(decode_status(WRITTEN), decode_status(WRITTEN)) == {}
