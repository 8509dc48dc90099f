"""Scaling a job that was submitted gives the job that would have been submitted so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.verbs import scale
from muster.jobs import submission

KINDS: dict[str, dict[str, Any]] = {
    "tfjob": {"chief": True, "ps": 2},
    "mpijob": {"gputopology": True},
    "pytorchjob": {},
    "jaxjob": {},
}


def changed(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The document after a JSON patch of `add` and `replace`."""
    for row in operations:
        *steps, last = (
            step.replace("~1", "/").replace("~0", "~") for step in row["path"].split("/")[1:]
        )
        at = document
        for step in steps:
            at = at[int(step)] if isinstance(at, list) else at[step]
        assert row["op"] == "add" or last in at
        at[last] = row["value"]
    return document


@pytest.mark.parametrize("type_", KINDS)
@given(
    before=st.integers(2, 6), after=st.integers(2, 6), gpus=st.integers(0, 4), gang=st.booleans()
)
def test_a_scaled_job_is_the_one_that_would_have_been_submitted(
    type_: str, before: int, after: int, gpus: int, gang: bool
) -> None:
    args = submission.BY_TYPE[type_](
        name="j", command=("x",), image="i", gpus=gpus, gang=gang, workers=before, **KINDS[type_]
    )
    job = submission.bundle(args).job

    assert changed(job, scale.operations(job, {"worker": after})) == (
        submission.bundle(replace(args, workers=after)).job
    )


def test_parameter_servers_are_members_but_no_workers() -> None:
    args = submission.TensorFlow(
        name="j", command=("x",), image="i", gpus=1, ps_gpus=1, gang=True, workers=3, ps=1
    )
    job = submission.bundle(args).job

    assert changed(job, scale.operations(job, {"ps": 4})) == (
        submission.bundle(replace(args, ps=4)).job
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"tfReplicaSpecs": {"Worker": None}},
        {"tfReplicaSpecs": {"Worker": {"template": [], "replicas": "x"}}, "runPolicy": 3},
        {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"env": [1]}]}}}}},
    ],
)
def test_odd_manifests_are_scaled_all_the_same(odd: dict[str, Any]) -> None:
    rows = scale.operations({"spec": odd}, {"worker": 3})

    path = "/spec/tfReplicaSpecs/Worker/replicas"
    assert rows == [{"op": "add", "path": path, "value": 3}]
