"""A job with an invalid manifest: its status, which pods stay, and how it recovers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.jobs import parse
from muster.jobs.invalid_job import job_from_metadata
from muster.operator.decide.job_decision import decide
from tests.muster.operator.builders import Model, manifest, replica

NO_POLICY = InvalidJob("spec.tfReplicaSpecs.Worker.template", "no such policy", hint="mend it")
GOOD = {"Worker": replica(2), "PS": replica(1)}
BAD = {"Worker": {**replica(2), "replicas": -1}, "PS": replica(1)}


def running(**spec: Any) -> Model:
    model = Model(manifest(roles=GOOD, **spec))
    model.settle()
    for name in model.pods:
        model.run(name, hostIP="10.0.0.1")
    model.settle()
    return model


def refuse(model: Model, error: InvalidJob | None = None) -> None:
    """The operator reconciles a job that it cannot parse."""
    if error is None:
        with pytest.raises(InvalidJob) as refused:
            parse.parse_job(model.raw)
        error = refused.value
    job = job_from_metadata(model.raw, rejected=error.with_hint)
    for action in decide(job, model.observed(), model.settings, model.now):
        model._do(action)


@pytest.mark.parametrize("clean", ["None", "Running", "All"])
def test_a_running_job_made_invalid_keeps_its_pods_and_continues_once_it_is_corrected(
    clean: str,
) -> None:
    model = running(runPolicy={"cleanPodPolicy": clean, "ttlSecondsAfterFinished": 1})
    before, pods = model.raw["status"], dict(model.pods)
    model.edit(tfReplicaSpecs=BAD)
    refuse(model)
    assert model.conditions() == ["InvalidSpec", "Created", "Running"]
    assert model.status["conditions"][0]["message"].startswith(
        "spec.tfReplicaSpecs.Worker.replicas"
    )
    assert "completionTime" not in model.status
    assert model.status["observedGeneration"] == 2
    assert model.status["replicaStatuses"]["Worker"] == {"active": 2}

    model.later(60)
    model.edit(tfReplicaSpecs=GOOD)
    model.settle()

    assert model.pods == pods
    assert not model.deleted
    assert model.conditions() == ["Created", "Running"]
    assert model.status["observedGeneration"] == 3
    assert "completionTime" not in model.status
    unchanged = ("startTime", "replicaStatuses")
    assert {n: model.status[n] for n in unchanged} == {n: before[n] for n in unchanged}


@pytest.mark.parametrize("clean", ["None", "Running", "All"])
def test_a_rejected_template_leaves_running_pods_and_deletes_unscheduled_ones(
    clean: str,
) -> None:
    model = running(runPolicy={"cleanPodPolicy": clean, "ttlSecondsAfterFinished": 1})
    pods = dict(model.pods)
    model.edit(tfReplicaSpecs={"Worker": replica(3), "PS": replica(1)})
    model.settle()
    assert sorted(set(model.pods) - set(pods)) == ["j-worker-2"]
    refuse(model, NO_POLICY)

    model.settle()
    model.later(3600)
    model.settle()

    assert model.pods == pods
    assert model.conditions() == ["InvalidSpec", "Created", "Running"]
    assert (VOLCANO_POD_GROUPS.resource, "j") in model.objects
    assert not model.deleted

    model.edit(tfReplicaSpecs=GOOD)
    model.settle()
    assert model.pods == pods
    assert model.conditions() == ["Created", "Running"]


def test_a_job_whose_template_is_rejected_still_ends_as_its_pods_end() -> None:
    model = running()
    model.edit(tfReplicaSpecs={"Worker": replica(3), "PS": replica(1)})
    refuse(model, NO_POLICY)
    model.exit("j-worker-0", 0)
    model.settle()

    assert model.conditions() == ["InvalidSpec", "Created", "Running(False)", "Succeeded"]


def test_a_job_whose_template_is_rejected_fails_when_none_of_its_pods_runs() -> None:
    model = running()
    model.edit(tfReplicaSpecs={"Worker": replica(3), "PS": replica(1)})
    refuse(model, NO_POLICY)
    model.pods.clear()
    model.settle()

    assert model.conditions() == ["Created", "Running(False)", "Failed"]
    assert model.status["conditions"][-1]["reason"] == "InvalidSpec"
    assert not model.pods
    assert [event.reason for event in model.events].count("InvalidSpec") == 1


def test_counted_restarts_survive_a_restart_of_the_operator() -> None:
    model = running()
    model.raw["status"]["restarts"] = 2
    model.edit(tfReplicaSpecs=BAD)
    refuse(model)
    model.edit(tfReplicaSpecs=GOOD)
    model.settle()

    assert model.status["restarts"] == 2


def test_one_event_is_emitted_per_invalid_manifest() -> None:
    model = Model(manifest(roles=BAD))
    refuse(model)
    refuse(model)
    assert len(model.events) == 1

    model.edit(tfReplicaSpecs={"Wroker": replica(1)})
    refuse(model)
    assert [event.reason for event in model.events] == ["InvalidSpec"] * 2
    assert "unknown role 'Wroker'" in model.status["conditions"][-1]["message"]


def test_a_job_that_ended_is_not_rejected_afterwards() -> None:
    model = running()
    model.exit("j-worker-0", 0)
    model.settle()
    model.edit(tfReplicaSpecs=BAD)
    refuse(model)

    assert model.conditions() == ["Created", "Running(False)", "Succeeded"]


def test_an_invalid_job_of_the_first_version_has_a_failed_phase_until_it_is_corrected() -> None:
    raw: Raw = manifest()
    raw["spec"] = {"replicaSpecs": [{"tfReplicaType": "CHEF", "template": {}}]}
    model = Model(raw)
    refuse(model)
    status = model.status
    assert (status["phase"], status["state"]) == ("Failed", "Failed")
    assert status["reason"].startswith("invalid job spec: spec.replicaSpecs[0]: unknown role")

    model.edit(replicaSpecs=[{"tfReplicaType": "CHIEF", "template": replica(1)["template"]}])
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Creating", "Unknown")
    assert "reason" not in model.status


def refuse_pods(model: Model, error: InvalidJob = NO_POLICY) -> None:
    """The API server rejected a pod that the last decision created."""
    model.extra["template_rejection"] = error.with_hint
    model.step()
    del model.extra["template_rejection"]


@pytest.mark.parametrize("clean", ["None", "Running", "All"])
def test_a_job_rejected_before_it_started_leaves_nothing_behind(clean: str) -> None:
    model = Model(manifest(roles=GOOD, runPolicy={"cleanPodPolicy": clean}))
    model.settle()
    model.raw.pop("status")  # The operator was killed before it wrote a status.
    del model.pods["j-ps-0"]
    refuse_pods(model)
    assert model.conditions() == ["Created", "Failed"]
    assert "startTime" in model.status
    for name, pod in model.pods.items():  # They get their nodes a moment later.
        spec = msgspec.structs.replace(pod.spec, node_name="n")
        model.pods[name] = msgspec.structs.replace(pod, spec=spec)
    model.run()

    model.settle()

    assert not model.pods
    assert not model.services
    assert not model.objects


def test_a_rejected_job_is_deleted_when_its_ttl_is_over() -> None:
    model = Model(manifest(roles=GOOD, runPolicy={"ttlSecondsAfterFinished": 60}))
    refuse_pods(model)
    model.settle()
    assert model.wait() == 60

    model.later(60)
    model.step()
    assert model.deleted


def test_workers_do_not_wait_for_a_rejected_launcher() -> None:
    roles = {"Launcher": replica(1, name="mpi"), "Worker": replica(2, name="mpi")}
    model = Model(manifest("MPIJob", roles))
    model.settle()
    model.run()
    model.step()
    launcher = next(name for name in model.pods if "launcher" in name)
    del model.pods[launcher]
    refuse_pods(model)
    assert model.conditions() == ["Created", "Failed"]

    model.settle()
    assert not model.pods
