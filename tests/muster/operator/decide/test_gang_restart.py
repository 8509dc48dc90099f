"""`muster.dev/restart: gang`: when the gang breaks, all its pods are recreated, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubekit.objects.meta import Raw, timestamp
from tests.muster.operator.builders import Model, manifest, replica
from tests.muster.words import failed_of_late

CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "MPIJob": "mpi"}


def running(kind: str = "TFJob", restart: str = "OnFailure", **spec: Any) -> Model:
    """A running job of two roles whose gang restarts as a whole."""
    lead = {"TFJob": "PS", "PyTorchJob": "Master", "MPIJob": "Launcher"}[kind]
    name = CONTAINERS[kind]
    roles = {"Worker": replica(2, restart, name), lead: replica(1, restart, name)}
    raw = manifest(kind, roles, **spec)
    raw["metadata"]["annotations"] = {"muster.dev/restart": "gang"}
    model = Model(raw)
    up(model)
    return model


def up(model: Model) -> None:
    """Let all pods run; a launcher is created once its workers run."""
    for _ in range(2):
        model.settle()
        model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]


def uids(model: Model) -> set[str]:
    return {pod.metadata.uid for pod in model.pods.values()}


def deleted(model: Model, name: str, container: str) -> None:
    model.request_deletion(name)


def removed(model: Model, name: str, container: str) -> None:
    del model.pods[name]


def drained(model: Model, name: str, container: str) -> None:
    model.request_deletion(name)
    model.exit(name, 0, container)


def evicted(model: Model, name: str, container: str) -> None:
    model.pod(name, phase="Failed", reason="Evicted")


def preempted(model: Model, name: str, container: str) -> None:
    at = timestamp(model.now)
    notice = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at}
    model.run(name, conditions=[notice])
    model.request_deletion(name)


def restarted(model: Model, name: str, container: str) -> None:
    """Let the node restart the container in place."""
    row = {
        "name": container,
        "restartCount": 1,
        "state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 3, "message": "step 7\nboom"}},
    }
    model.run(name, containerStatuses=[row])


def failed(model: Model, name: str, container: str) -> None:
    model.exit(name, 137, container)


BREAKS = [deleted, removed, drained, evicted, preempted, restarted, failed]


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("break_gang", BREAKS, ids=lambda break_gang: break_gang.__name__)
def test_a_failure_or_loss_of_one_replica_restarts_all_of_them_once(
    break_gang: Any, kind: str
) -> None:
    model = running(kind)
    before = uids(model)

    break_gang(model, "j-worker-1", CONTAINERS[kind])
    model.settle()
    assert model.conditions() == ["Created", "Restarting"]
    assert not uids(model) & before

    up(model)
    after = uids(model)
    model.later(1)
    model.settle()
    assert uids(model) == after
    assert len(after) == 3
    assert model.status.get("restarts", 0) == (break_gang in (restarted, failed))
    events = [event for event in model.events if event.reason == f"{kind}Restarting"]
    assert len(events) == 1


@pytest.mark.parametrize("break_gang", BREAKS, ids=lambda break_gang: break_gang.__name__)
def test_a_second_failure_in_a_gang_being_restarted_changes_nothing(break_gang: Any) -> None:
    model = running()
    model.request_deletion("j-worker-1")
    model.step()
    before = model.status

    for name in ("j-worker-0", "j-ps-0"):
        break_gang(model, name, "tensorflow")
        model.step()

    assert model.status.get("restarts") == before.get("restarts")
    up(model)
    assert len([event for event in model.events if event.reason == "TFJobRestarting"]) == 1


def test_a_preempted_gang_is_recreated_without_another_restart() -> None:
    model = running()
    for name in model.pods:
        preempted(model, name, "tensorflow")
    model.settle()

    up(model)
    assert "restarts" not in model.status
    assert len([event for event in model.events if event.reason == "TFJobRestarting"]) == 1


def test_the_status_names_the_replica_that_broke_the_gang() -> None:
    model = running()
    model.request_deletion("j-worker-1")
    model.settle()
    gone = {"pod": "j-worker-1", "role": "worker", "index": 1}
    assert model.status["restart"] == {"code": "ReplicaGone", "first": gone}

    up(model)
    assert "restart" not in model.status
    restarted(model, "j-ps-0", "tensorflow")
    model.settle()
    first = {"pod": "j-ps-0", "role": "ps", "exitCode": 3, "lastLines": ["boom"]}
    assert model.status["restart"] == {"code": "RestartedInPlace", "first": first}


@pytest.mark.parametrize("break_gang", [restarted, failed], ids=["restarted", "failed"])
def test_a_gang_that_waits_names_the_replica_that_failed_last(
    break_gang: Callable[[Model, str, str], None],
) -> None:
    model = running()
    failed(model, "j-worker-0", "tensorflow")
    model.settle()
    up(model)
    break_gang(model, "j-worker-1", "tensorflow")
    model.settle()

    ending = (3, "boom") if break_gang is restarted else (137,)
    waiting = model.status["waiting"]
    assert waiting["message"] == failed_of_late("worker 1", 2, *ending, with_gang=True)
    assert waiting["until"] == "2026-01-02T03:04:15Z"


def test_a_replica_lost_before_the_gang_was_complete_is_only_recreated() -> None:
    model = running()
    model.request_deletion("j-worker-1")
    model.settle()
    before = model.pods["j-ps-0"].metadata.uid
    model.run("j-ps-0", "j-worker-0")
    model.settle()
    restarted(model, "j-worker-0", "tensorflow")
    del model.pods["j-worker-1"]
    model.settle()

    assert model.pods["j-ps-0"].metadata.uid == before
    assert len(model.pods) == 3


@pytest.mark.parametrize("row", ["initContainerStatuses", "containerStatuses"])
def test_a_restart_of_another_container_breaks_no_gang(row: str) -> None:
    model = running()
    before = uids(model)
    status: dict[str, Any] = {row: [{"name": "beside", "restartCount": 4}]}
    model.pod("j-worker-1", phase="Running", **status)
    model.settle()

    assert uids(model) == before
    assert model.status["restarts"] == 4


def workers(model: Model, count: int) -> None:
    roles: Raw = model.raw["spec"]["tfReplicaSpecs"]
    model.edit(tfReplicaSpecs={**roles, "Worker": replica(count, "OnFailure")})
    model.settle()


def test_a_gang_that_grows_or_shrinks_is_not_broken() -> None:
    model = running()
    before = uids(model)
    workers(model, 4)
    assert before < uids(model)
    workers(model, 1)
    workers(model, 3)
    assert model.conditions() == ["Created", "Running"]
    del model.pods["j-worker-2"]
    model.settle()
    assert "TFJobRestarting" not in [event.reason for event in model.events]

    model.run()
    model.settle()
    before = uids(model)
    del model.pods["j-worker-2"]
    model.settle()
    assert not uids(model) & before


def test_restarts_from_before_the_annotation_break_no_gang() -> None:
    model = running()
    annotations = model.raw["metadata"].pop("annotations")
    restarted(model, "j-worker-1", "tensorflow")
    model.settle()
    before = uids(model)
    assert "whole" not in model.status

    model.raw["metadata"]["annotations"] = annotations
    model.settle()
    assert uids(model) == before

    model.request_deletion("j-worker-0")
    model.settle()
    assert not uids(model) & before


def test_a_gang_that_keeps_restarting_reaches_its_limit() -> None:
    model = running(runPolicy={"backoffLimit": 3})
    for _ in range(2):
        restarted(model, "j-worker-1", "tensorflow")
        model.settle()
        assert model.conditions() == ["Created", "Restarting"]
        model.later(model.wait() or 0)
        up(model)
    restarted(model, "j-worker-1", "tensorflow")
    model.settle()

    assert model.conditions()[-1] == "Failed"


def test_a_gang_that_keeps_restarting_is_recreated_at_growing_intervals() -> None:
    model = running()
    waits = []
    for _ in range(4):
        restarted(model, "j-worker-1", "tensorflow")
        model.settle()
        waits.append(model.wait() or 0)
        model.later(waits[-1])
        up(model)

    assert waits == [0, 10, 20, 40]
