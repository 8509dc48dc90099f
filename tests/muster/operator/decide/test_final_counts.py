"""The counts of a finished job say how its pods really ended."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kubekit.objects.kinds import PODS
from muster.operator.decision_types import Delete, PatchStatus
from tests.muster.operator.builders import Model, manifest, replica

ALONE = {"Worker": replica(3)}


def started(policy: str = "Running", **roles: int) -> Model:
    specs = {role: replica(count) for role, count in roles.items()} or ALONE
    model = Model(manifest(roles=specs, runPolicy={"cleanPodPolicy": policy}))
    model.settle()
    model.run()
    model.settle()
    return model


def counts(model: Model) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = model.status["replicaStatuses"]
    return result


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_workers_that_end_a_moment_after_the_job_count_as_they_end(policy: str) -> None:
    model = started(policy)
    model.exit("j-worker-0", 0)
    model.settle()
    assert model.conditions()[-1] == "Succeeded"
    assert counts(model) == {"Worker": {"active": 2, "succeeded": 1}}

    model.later(2)
    model.exit("j-worker-1", 0)
    model.settle()
    model.later(1)
    model.exit("j-worker-2", 3)
    model.settle()

    assert counts(model) == {"Worker": {"succeeded": 2, "failed": 1}}
    assert sorted(model.pods) == (
        [] if policy == "All" else ["j-worker-0", "j-worker-1", "j-worker-2"]
    )


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_a_pod_that_runs_on_is_stopped_after_some_seconds_and_has_not_succeeded(
    policy: str,
) -> None:
    model = started(policy, PS=1, Worker=2)
    model.exit("j-worker-0", 0)
    model.settle()
    assert model.wait() == 5
    assert len(model.services) == len(model.pods) == 3

    model.later(5)
    model.settle()

    assert sorted(model.pods) == ([] if policy == "All" else ["j-worker-0"])
    # A parameter server never ends by itself: it has done its work.
    assert counts(model) == {"PS": {"succeeded": 1}, "Worker": {"succeeded": 1}}
    assert model.view.counts == "2 succeeded, 1 stopped of 3"
    assert model.wait() is None


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_a_worker_that_waits_for_its_next_try_has_not_succeeded(policy: str) -> None:
    roles = {"Worker": replica(2, "OnFailure")}
    model = Model(manifest(roles=roles, runPolicy={"cleanPodPolicy": policy}))
    model.settle()
    model.run()
    model.settle()
    row = {
        "name": "tensorflow",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    model.pod("j-worker-1", phase="Running", containerStatuses=[row])
    model.settle()
    assert model.view.restarts == 3
    model.exit("j-worker-0", 0)
    model.settle()

    assert model.view.counts == "1 succeeded, 1 not finished of 2"
    assert model.view.restarts == 3


def test_parameter_servers_alone_are_not_waited_for() -> None:
    model = started(PS=2, Worker=1)
    model.exit("j-worker-0", 0)
    model.settle()

    assert sorted(model.pods) == ["j-worker-0"]
    assert counts(model) == {"PS": {"succeeded": 2}, "Worker": {"succeeded": 1}}


def test_a_worker_without_a_node_does_not_start_after_the_end() -> None:
    model = started(Worker=2)
    model.pod("j-worker-1", phase="Pending")
    model.exit("j-worker-0", 0)
    model.settle()

    assert sorted(model.pods) == ["j-worker-0"]
    assert counts(model) == {"Worker": {"succeeded": 1}}


def test_the_workers_of_an_mpi_job_are_stopped_at_once() -> None:
    roles = {"Launcher": replica(1, name="mpi"), "Worker": replica(2, name="mpi")}
    model = Model(manifest("MPIJob", roles, runPolicy={"cleanPodPolicy": "Running"}))
    model.settle()
    model.run(conditions=[{"type": "Ready", "status": "True"}])
    model.settle()
    launcher = next(name for name in model.pods if "launcher" in name)
    model.exit(launcher, 0, "mpi")
    model.settle()

    assert list(model.pods) == [launcher]


def test_a_failed_job_does_not_wait_for_its_workers() -> None:
    model = started(Worker=2)
    model.exit("j-worker-0", 1)
    model.settle()

    assert sorted(model.pods) == ["j-worker-0"]
    assert counts(model) == {"Worker": {"failed": 1}}


@given(
    st.sampled_from(["Running", "All", "None"]),
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["run", "exit", "time"])), max_size=20),
)
def test_a_job_whose_pods_all_end_well_never_restarts_and_counts_them_all(
    policy: str, chief: bool, workers: int, happenings: list[tuple[int, str]]
) -> None:
    roles = {"Worker": replica(workers)} | ({"Chief": replica(1)} if chief else {})
    model = Model(manifest(roles=roles, runPolicy={"cleanPodPolicy": policy}))
    model.settle()
    names = sorted(model.pods)
    ended: set[str] = set()
    deleted: set[str] = set()

    def step() -> None:
        actions = model.step()
        deleted.update(a.name for a in actions if isinstance(a, Delete) and a.kind == PODS)
        model.collect()

    for number, event in [*happenings, *((n, "exit") for n in range(len(names)))]:
        name = names[number % len(names)]
        if event == "time":
            model.later(1)
        elif name in model.pods and name not in ended:
            # A pod may end before the operator has ever seen it run.
            model.run(name) if event == "run" else model.exit(name, 0)
            ended |= {name} if event == "exit" else set()
        step()
    step()

    assert "Restarting" not in {row.reason.removeprefix("TFJob") for row in model.events}
    assert model.conditions()[-1] == "Succeeded"
    total = sum(row.get("succeeded", 0) for row in counts(model).values())
    # A pod may end well while it is being stopped; a pod that only was stopped does not count.
    assert total <= len(ended)
    assert total >= len(ended - deleted)
    assert not any(row.get("active") or row.get("failed") for row in counts(model).values())


ENDS = st.sampled_from([None, 0, 1, 137, "Pending", "crashing"])


@given(
    ends=st.lists(ENDS, min_size=4, max_size=4),
    policy=st.sampled_from(["None", "Running", "All"]),
    restart=st.sampled_from(["Never", "OnFailure", "ExitCode"]),
    deleted=st.sampled_from([None, "j-chief-0", "j-ps-0", "j-worker-0"]),
)
def test_the_outcome_and_the_counts_of_a_job_are_one_write(
    ends: list[object], policy: str, restart: str, deleted: str | None
) -> None:
    roles = {role: replica(n, restart) for role, n in {"Chief": 1, "PS": 1, "Worker": 2}.items()}
    run_policy = {"cleanPodPolicy": policy, "backoffLimit": 1}
    model = Model(manifest(roles=roles, runPolicy=run_policy))
    model.settle()
    model.run()
    model.settle()
    for name, end in zip(sorted(model.pods), ends, strict=True):
        if isinstance(end, int):
            model.exit(name, end)
        elif end == "Pending":
            model.pod(name, phase="Pending")
        elif end is not None:
            waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
            row = {"name": "tensorflow", "state": waiting, "restartCount": 1}
            row["lastState"] = {"terminated": {"exitCode": 1}}
            model.pod(name, phase="Running", containerStatuses=[row])
    if deleted is not None:
        model.request_deletion(deleted)

    first = [action for action in model.step() if isinstance(action, PatchStatus)]
    if model.job.status.outcome is None:
        return
    assert len(first) == 1
    # Until another pod ends, nothing is left to write; deletions change no count.
    for _ in range(3):
        assert not any(isinstance(action, PatchStatus) for action in model.step())
        model.collect()
