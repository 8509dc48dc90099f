"""How conditions follow one another."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.api.meta import Raw, timestamp
from muster.operator import status
from tests.operator.builders import NOW, Model, manifest, merged, replica

LATER = NOW + timedelta(seconds=10)


def types(found: Raw) -> list[str]:
    rows = found.get("conditions", [])
    return [row["type"] + ("" if row["status"] == "True" else "(False)") for row in rows]


def after(*events: str) -> Raw:
    found: Raw = {}
    for event in events:
        found = status.with_condition(found, event, "True", f"TFJob{event}", "m", NOW)
    return found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["Created"], ["Created"]),
        (["Created", "Running"], ["Created", "Running"]),
        (["Created", "Running", "Restarting"], ["Created", "Restarting"]),
        (["Created", "Running", "Restarting", "Running"], ["Created", "Running"]),
        (["Created", "Running", "Succeeded"], ["Created", "Running(False)", "Succeeded"]),
        (["Created", "Running", "Failed"], ["Created", "Running(False)", "Failed"]),
        (["Created", "Succeeded", "Failed"], ["Created", "Succeeded"]),
        (["Created", "Failed", "Succeeded"], ["Created", "Failed"]),
        (["Created", "Failed", "Running"], ["Created", "Failed"]),
    ],
)
def test_conditions_follow_one_another(events: list[str], expected: list[str]) -> None:
    assert types(after(*events)) == expected


def test_the_same_again_changes_nothing_not_even_the_message() -> None:
    before = after("Created", "Running")

    again = status.with_condition(before, "Running", "True", "TFJobRunning", "other", LATER)

    assert again is before


def test_a_new_reason_alone_keeps_the_time_of_the_transition() -> None:
    again = status.with_condition(after("Running"), "Running", "True", "Other", "m", LATER)
    (row,) = again["conditions"]
    assert row["lastTransitionTime"] == timestamp(NOW)
    assert row["lastUpdateTime"] == timestamp(LATER)

    turned = status.with_condition(after("Running"), "Running", "False", "Other", "m", LATER)
    assert turned["conditions"][0]["lastTransitionTime"] == timestamp(LATER)


def test_the_first_version_also_has_a_phase_and_a_state() -> None:
    raw = manifest(roles={"Worker": replica(1)})
    rows = raw["spec"].pop("tfReplicaSpecs")
    raw["spec"]["replicaSpecs"] = [{"tfReplicaType": "MASTER", **rows["Worker"]}]
    model = Model(raw)
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Creating", "Unknown")

    model.run()
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Running", "Running")

    model.exit("j-master-0", 0)
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Done", "Succeeded")


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
def test_a_change_applied_to_the_old_gives_the_new(old: Raw, new: Raw) -> None:
    assert merged(old, status.change(old, new)) == new


def test_no_change_is_no_write() -> None:
    assert status.change({"a": {"b": 1}}, {"a": {"b": 1}}) == {}


def test_conditions_that_nobody_could_have_meant_are_dropped_and_the_others_kept() -> None:
    good = {"type": "Created", "status": "True"}
    rows = [{"type": ["x"]}, good, {"type": "Failed", "status": {}}, "x", {}]

    assert status.readable({"conditions": rows}) == {"conditions": [good]}
