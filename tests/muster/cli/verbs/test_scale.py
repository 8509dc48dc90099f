"""`arena scale` gives the job that would have been submitted with the new numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kubekit.client.request import PatchType
from kubekit.errors import UsageError
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key, Raw
from muster.client.submit.transaction import SUBMISSION_ANNOTATION
from muster.contract.job_kinds import TFJOBS
from muster.jobs.build import flags, job_manifest, scaling
from tests.muster.cli.place import Place

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
def test_a_scaled_job_equals_a_new_submission(
    type_: str, before: int, after: int, gpus: int, gang: bool
) -> None:
    args = flags.BY_TYPE[type_](
        name="j", command=("x",), image="i", gpus=gpus, gang=gang, workers=before, **KINDS[type_]
    )
    job = job_manifest.bundle(args).job

    assert changed(job, scaling.operations(job, {"worker": after})) == (
        job_manifest.bundle(replace(args, workers=after)).job
    )


def test_parameter_servers_count_as_members_but_not_as_workers() -> None:
    args = flags.TensorFlow(
        name="j", command=("x",), image="i", gpus=1, ps_gpus=1, gang=True, workers=3, ps=1
    )
    job = job_manifest.bundle(args).job

    assert changed(job, scaling.operations(job, {"ps": 4})) == (
        job_manifest.bundle(replace(args, ps=4)).job
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"tfReplicaSpecs": {"Worker": None}},
        {"tfReplicaSpecs": {"Worker": {"template": [], "replicas": "x"}}, "runPolicy": 3},
        {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"env": [1]}]}}}}},
    ],
)
def test_invalid_manifests_can_be_scaled(odd: dict[str, Any]) -> None:
    rows = scaling.operations({"spec": odd}, {"worker": 3})

    path = "/spec/tfReplicaSpecs/Worker/replicas"
    assert rows == [{"op": "add", "path": path, "value": 3}]


def test_scaling_changes_the_number_of_workers(place: Place) -> None:
    place.job("a")

    assert place.arena("scale", "a", "--workers", "5")[:2] == (0, "tfjob.kubeflow.org/a scaled\n")
    assert place.spec("a")["tfReplicaSpecs"]["Worker"]["replicas"] == 5


@pytest.mark.parametrize(
    ("spec", "wanted", "operations"),
    [
        ({"tfReplicaSpecs": {"WORKER": {}}}, {"worker": 3}, [("/spec/tfReplicaSpecs/WORKER", 3)]),
        (
            {"pytorchReplicaSpecs": {"Master": {}, "Worker": {}}},
            {"worker": 3},
            [("/spec/pytorchReplicaSpecs/Worker", 2)],
        ),
        (
            {"replicaSpecs": [{"tfReplicaType": "PS"}, {"tfReplicaType": "Worker"}]},
            {"worker": 3, "ps": 2},
            [("/spec/replicaSpecs/0", 2), ("/spec/replicaSpecs/1", 3)],
        ),
        ({"replicas": 2, "template": {}}, {"worker": 3}, [("/spec", 3)]),
    ],
)
def test_every_shape_of_a_job_can_be_scaled(
    spec: Raw, wanted: dict[str, int], operations: list[tuple[str, int]]
) -> None:
    assert scaling.operations({"spec": spec}, wanted) == [
        {"op": "add", "path": f"{path}/replicas", "value": count} for path, count in operations
    ]


def test_a_scaled_gang_equals_a_new_submission(place: Place) -> None:
    flags = ("--name=g", "--image=i", "--gang", "--gpus=2", "--ps=1", "--workers=2")
    assert place.arena("submit", "tf", *flags, "--env=workers_at_first=2", "x")[0] == 0

    assert place.arena("scale", "g", "--workers", "5")[0] == 0

    job = place.client.get(TFJOBS, Key(place.namespace, "g"))
    place.client.delete(TFJOBS, Key(place.namespace, "g"))
    place.client.delete(CONFIG_MAPS, Key(place.namespace, "g-tfjob"))
    assert place.arena("submit", "tf", *flags[:-1], "--workers=5", "--env=workers_at_first=2",
                       "x")[0] == 0  # fmt: skip
    anew = place.client.get(TFJOBS, Key(place.namespace, "g"))
    assert job["spec"] == anew["spec"]
    for each in (job, anew):
        del each["metadata"]["annotations"][SUBMISSION_ANNOTATION]
    assert job["metadata"]["annotations"] == anew["metadata"]["annotations"]
    assert anew["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 6


def test_scaling_keeps_a_minimum_and_variables_that_the_user_chose(place: Place) -> None:
    flags = ("--name=g", "--image=i", "--gang", "--workers=4", "--env=workers=many")
    assert place.arena("submit", "tf", *flags, "x")[0] == 0
    least = [{"op": "replace", "path": "/spec/runPolicy/schedulingPolicy/minAvailable", "value": 3}]
    place.client.patch(TFJOBS, Key(place.namespace, "g"), least, patch_type=PatchType.JSON)

    assert place.arena("scale", "g", "--workers", "8")[0] == 0

    assert place.spec("g")["runPolicy"]["schedulingPolicy"]["minAvailable"] == 3
    main = place.spec("g")["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert {"name": "workers", "value": "many"} in main["env"]


def test_scaling_a_running_job_reports_that_its_instances_are_not_restarted(place: Place) -> None:
    assert place.arena("submit", "tf", "--name=r", "--image=i", "--workers=2", "x")[0] == 0
    note = "running replicas keep the old numbers"
    assert note not in place.arena("scale", "r", "--workers", "3")[2]
    running = {"status": {"conditions": [{"type": "Running", "status": "True"}]}}
    place.client.patch(TFJOBS, Key(place.namespace, "r"), running, subresource="status")

    code, _, err = place.arena("scale", "r", "--workers", "4")

    assert code == 0
    assert note in err


@pytest.mark.parametrize("count", ["0", "-1", "99999999999"])
def test_a_job_cannot_be_scaled_to_numbers_that_submit_refuses(place: Place, count: str) -> None:
    place.job("a")

    code, out, err = place.arena("scale", "a", "--workers", count)

    assert (code, out) == (2, "")
    assert "--workers" in err
    assert place.spec("a")["tfReplicaSpecs"]["Worker"]["replicas"] == 2


@pytest.mark.parametrize(("kind", "role"), [(flags.TensorFlow, "chief"), (flags.PyTorch, "master")])
def test_a_job_of_one_worker_says_that_it_has_another_role(
    kind: type[flags.Submission], role: str
) -> None:
    args = kind(name="a", image="i", command=("true",))
    raw = job_manifest.bundle(args).job

    with pytest.raises(UsageError, match=f"its roles: {role}") as caught:
        scaling.operations(raw, {"worker": 2})

    assert caught.value.hint.startswith(f"A job of one worker is one {role}.")


def test_a_role_that_the_job_lacks_cannot_be_scaled(place: Place) -> None:
    place.job("a")

    code, _, err = place.arena("scale", "a", "--ps", "2")

    assert code == 2
    assert "error: the job has no ps replicas; its roles: worker" in err
    assert place.arena("scale", "a")[0] == 2
    with pytest.raises(UsageError):
        scaling.operations({"spec": {"xReplicaSpecs": {"Master": {}, "Worker": {}}}}, {"worker": 0})


@pytest.mark.parametrize(("word", "flag"), [("3", "--workers=3"), ("three", "--workers=N")])
def test_a_number_without_its_flag_gets_the_flag(place: Place, word: str, flag: str) -> None:
    code, _, err = place.arena("scale", "ck", word)

    assert code == 2
    assert err == f"error: unexpected {word} after the name of the job\nDid you mean {flag}?\n"
