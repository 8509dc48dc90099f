"""A job whose pods are taken away says by whom and why until all of them run again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubekit.objects.conditions import disruption_condition, preemption_message
from kubekit.objects.meta import Condition
from muster.jobs import job_sentences, pod_status
from muster.jobs.job_status import Ending, JobRestart
from tests.muster.operator.builders import Model, manifest, replica
from tests.muster.words import tells

BY_BIG = "preempted by ns/big, which has a higher priority"
ROOM = "0 of 2 workers fit; short 2 cpu"


def running(gang: str = "replica", workers: int = 2) -> Model:
    raw = manifest(roles={"Worker": replica(workers)})
    raw["metadata"]["annotations"] = {"muster.dev/restart": gang}
    model = Model(raw)
    model.settle()
    model.run()
    model.settle()
    return model


def preempt(model: Model, *pods: str, message: str = preemption_message("ns/big")) -> None:
    """Mark and delete these pods, as the scheduler does."""
    condition = disruption_condition("PreemptionByScheduler", message, model.now)
    for name in pods:
        model.run(name, conditions=[condition])
        model.request_deletion(name)


def evict(model: Model, name: str, reason: str, message: str) -> None:
    """The cluster marks the pod and asks it to end."""
    model.run(name, conditions=[disruption_condition(reason, message, model.now)])
    spec = replace(model.pods[name].spec, node_name="n2")
    model.pods[name] = replace(model.pods[name], spec=spec)
    model.request_deletion(name)


def wait_for_room(model: Model) -> None:
    row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ROOM}
    for name, pod in model.pods.items():
        if pod.status.phase == "Pending":
            model.pod(name, phase="Pending", conditions=[row])
    model.settle()


@pytest.mark.parametrize("gang", ["replica", "gang"])
def test_a_preempted_job_names_the_gang_that_preempted_it(gang: str) -> None:
    model = running(gang)
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()

    assert model.conditions()[-1] == "Restarting"
    assert model.status["restart"]["preempted"] == BY_BIG
    message = model.status["conditions"][-1]["message"]
    assert BY_BIG in message
    assert [e.message for e in model.events if e.reason == "TFJobRestarting"] == [message]
    assert "restarts" not in model.status

    wait_for_room(model)
    assert model.view.reason == f"{BY_BIG}; {ROOM}"


def test_a_job_that_runs_again_was_preempted_no_longer() -> None:
    model = running()
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()
    model.run("j-worker-0")
    model.settle()
    assert model.status["preempted"] == BY_BIG

    model.run()
    model.settle()

    assert model.conditions()[-1] == "Running"
    assert "preempted" not in model.status
    assert model.view.reason == ""


def test_a_job_that_loses_some_pods_to_another_says_so_while_they_wait() -> None:
    model = running()
    preempt(model, "j-worker-1")
    model.settle()
    wait_for_room(model)

    assert model.view.reason == f"{BY_BIG}; worker 1: {ROOM}"


def test_pods_that_are_gone_before_the_job_is_reconciled_are_not_forgotten() -> None:
    model = running()
    model.pods.clear()
    model.extra["removal"] = BY_BIG
    model.step()
    model.extra["removal"] = ""
    model.settle()

    assert BY_BIG in model.status["conditions"][-1]["message"]


def test_a_scheduler_that_names_nobody_preempted_for_a_pod_of_higher_priority() -> None:
    model = running()
    text = "default-scheduler: preempting to accommodate a higher priority pod"
    preempt(model, "j-worker-0", "j-worker-1", message=text)
    model.settle()

    assert model.status["preempted"] == "preempted by a pod of higher priority"


def test_a_preempted_pod_that_has_failed_is_not_a_failure() -> None:
    model = running()
    condition = disruption_condition("PreemptionByScheduler", BY_BIG, model.now)
    row = {"name": "tensorflow", "state": {"terminated": {"exitCode": 143}}}
    for name in list(model.pods):
        model.pod(name, phase="Failed", conditions=[condition], containerStatuses=[row])
    model.settle()

    assert tells(model.status["conditions"][-1]["message"], "j-worker-0", BY_BIG)


def test_a_job_that_is_suspended_no_longer_waits_for_room() -> None:
    model = running()
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()
    model.edit(runPolicy={"suspend": True})
    model.settle()

    assert "preempted" not in model.status


EVICTIONS = [
    (
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
        "evicted from node n2 through the eviction API, as by `kubectl drain`",
    ),
    (
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
        "evicted from node n2, which has a taint (Taint manager: deleting due to NoExecute taint)",
    ),
    (
        "TerminationByKubelet",
        "Pod was terminated in response to imminent node shutdown.",
        "stopped by node n2: Pod was terminated in response to imminent node shutdown.",
    ),
    (
        "DeletionByPodGC",
        "PodGC: node no longer exists",
        "removed from node n2 (DeletionByPodGC: PodGC: node no longer exists)",
    ),
]


@pytest.mark.parametrize(("reason", "message", "words"), EVICTIONS)
def test_the_owner_is_told_who_evicted_a_pod_from_where_and_why(
    reason: str, message: str, words: str
) -> None:
    model = running()
    evict(model, "j-worker-1", reason, message)
    model.step()
    model.step()

    assert model.status["preempted"] == words
    assert model.view.status == "RESTARTING"
    by = words.removesuffix(".")
    waits = model.status["waiting"]
    assert (waits["reason"], tells(waits["message"], "j-worker-1")) == ("Terminating", True)
    assert model.view.reason == f"{by}; {waits['message']}"
    model.settle()
    wait_for_room(model)
    assert model.view.reason == f"{by}; worker 1: {ROOM}"
    model.run()
    model.settle()
    assert model.view.reason == ""
    assert [e.message for e in model.events if e.reason == "Interrupted"] == [
        f"a replica was {words}"
    ]


def test_replicas_that_are_preempted_together_are_counted() -> None:
    model = running(workers=3)
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()

    assert [e.message for e in model.events if e.reason == "Interrupted"] == [
        f"2 replicas were {BY_BIG}"
    ]


def test_a_gang_that_restarts_for_a_drain_names_the_pod_and_the_node() -> None:
    model = running("gang")
    reason, message, words = EVICTIONS[0]
    evict(model, "j-worker-1", reason, message)
    model.settle()

    restart = JobRestart("Interrupted", Ending("j-worker-1"), 1, words)
    told = job_sentences.restart_message("j", restart)
    assert [e.message for e in model.events if e.reason == "TFJobRestarting"] == [told]
    assert [e for e in model.events if e.reason == "Interrupted"] == [], "said already"


def test_a_job_that_loses_all_its_pods_to_a_drain_was_not_preempted() -> None:
    model = running()
    reason, message, words = EVICTIONS[0]
    evict(model, "j-worker-0", reason, message)
    evict(model, "j-worker-1", reason, message)
    model.settle()

    assert model.status["restart"] == {"code": "Interrupted", "preempted": words}
    assert words in model.status["conditions"][-1]["message"]


@pytest.mark.parametrize(
    ("words", "code"), [(EVICTIONS[0][2], "Interrupted"), (BY_BIG, "Preempted")]
)
def test_a_gang_whose_pods_are_gone_says_whether_they_were_evicted_or_preempted(
    words: str, code: str
) -> None:
    model = running("gang")
    model.pods.clear()
    model.extra["removal"] = words
    model.step()

    assert model.status["restart"] == {"code": code, "preempted": words}


def test_a_job_whose_pod_cannot_end_on_a_dead_node_says_so_in_its_status() -> None:
    model = running()
    evict(model, "j-worker-1", "DeletionByTaintManager", "due to NoExecute taint")
    lost = model.pods["j-worker-1"]
    silent = (
        Condition("Ready", "False", last_transition_time=model.now),
        Condition("ContainersReady", "True"),
    )
    status = replace(lost.status, conditions=(*lost.status.conditions, *silent))
    model.pods["j-worker-1"] = replace(lost, status=status)
    model.step()
    model.step()

    waits = model.status["waiting"]
    assert waits["reason"] == "Terminating"
    assert waits["message"].endswith(f"; {pod_status.unreachable(model.pods['j-worker-1'])}")
    assert model.status["preempted"] == "evicted from node n2, which does not answer"
