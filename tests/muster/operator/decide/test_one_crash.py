"""One crash is one failure: replicas that train together restart once, and the first is to blame.

The others lose their peer a moment later and fail as well; their nodes may report that first.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.meta import Raw, timestamp
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import Model, manifest, replica
from tests.muster.words import exited

GLOO = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 9, in <module>\n'
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:41234"
)
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
TENSORFLOW = (
    "tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:\n"
    "Collective ops is aborted by: Socket closed"
)
JAX = (
    "F0102 client.h:77] Terminating process because the JAX distributed service detected fatal "
    "errors. This most likely indicates that another task died"
)
BOOM = "step 7\nValueError: boom"
CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "JAXJob": "jax", "MPIJob": "mpi"}


def running(
    kind: str = "PyTorchJob",
    restart: str = "OnFailure",
    settings: Settings | None = None,
    **spec: Any,
) -> Model:
    """A running job of three replicas that restart together."""
    name = CONTAINERS[kind]
    roles: Raw = {"Worker": replica(3, restart, name)}
    if kind == "PyTorchJob":
        roles = {"Master": replica(1, restart, name), "Worker": replica(2, restart, name)}
    if kind == "MPIJob":
        roles["Launcher"] = replica(1, restart, name)
    raw = manifest(kind, spec.pop("roles", roles), **spec)
    if settings is None:
        raw["metadata"]["annotations"] = {"muster.dev/restart": "gang"}
    model = Model(raw, settings)
    up(model)
    return model


def up(model: Model) -> None:
    for _ in range(2):
        model.settle()
        model.run(*(name for name, pod in model.pods.items() if not pod.finished))
    model.settle()


def crash(model: Model, name: str, code: int, message: str = "") -> None:
    model.exit(name, code, CONTAINERS[model.raw["kind"]], message=message)


def uids(model: Model) -> dict[str, str]:
    return {name: pod.metadata.uid for name, pod in model.pods.items()}


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "JAXJob"])
@pytest.mark.parametrize("words", [GLOO, RESET, TENSORFLOW, JAX])
def test_victims_that_are_reported_before_the_crash_neither_count_nor_are_to_blame(
    kind: str, words: str
) -> None:
    model = running(kind, runPolicy={"backoffLimit": 3})
    before = uids(model)
    *victims, culprit = sorted(before)
    for victim in victims:
        crash(model, victim, 1, words)
        model.settle()
        assert uids(model) == before
    model.later(1)
    crash(model, culprit, 137)
    model.settle()

    assert model.status["restarts"] == 1
    assert model.status["restart"]["first"]["pod"] == culprit
    assert not {*uids(model).values()} & {*before.values()}
    assert model.view.restarts == 1
    up(model)
    assert model.status["restarts"] == 1
    assert model.view.reason.startswith("worker")
    assert exited(137) in model.view.reason


@pytest.mark.parametrize("code", [1, 137])
def test_a_crash_that_says_why_is_not_waited_on(code: int) -> None:
    model = running()
    before = uids(model)
    crash(model, "j-worker-1", code, BOOM)
    model.settle()

    assert not {*uids(model).values()} & {*before.values()}


def test_a_victim_is_blamed_if_no_other_end_becomes_known() -> None:
    model = running(runPolicy={"backoffLimit": 3})
    crash(model, "j-master-0", 1, GLOO)
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.later(model.wait() or 0)
    model.settle()
    assert model.status["restart"]["first"]["pod"] == "j-master-0"
    assert model.status["restarts"] == 1


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_a_node_with_another_time_delays_no_restart(ahead: int) -> None:
    model = running()
    before = uids(model)
    model.later(ahead)
    crash(model, "j-master-0", 1, GLOO)
    model.later(-ahead)
    model.settle()

    assert not {*uids(model).values()} & {*before.values()}


def test_of_two_crashes_in_one_second_the_killed_replica_is_to_blame() -> None:
    model = running()
    crash(model, "j-master-0", 1, "exit without a reason")
    crash(model, "j-worker-0", 134, "terminate called")
    crash(model, "j-worker-1", 139)
    model.settle()

    assert model.status["restart"]["first"]["pod"] == "j-worker-1"


@pytest.mark.parametrize("restart", ["Never", "ExitCode"])
def test_a_job_without_another_attempt_fails_for_the_crash_and_not_for_a_victim(
    restart: str,
) -> None:
    model = running(restart=restart)
    crash(model, "j-master-0", 1, GLOO)
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    model.later(1)
    crash(model, "j-worker-1", 3, BOOM)
    crash(model, "j-worker-0", 1, RESET)
    model.settle()

    failure = model.status["failure"]
    assert model.conditions()[-1] == "Failed"
    assert (failure["first"]["pod"], failure["count"]) == ("j-worker-1", 1)


def test_a_victim_whose_peer_restarts_in_place_names_the_peer_and_lacks_retries() -> None:
    roles = {"Master": replica(1, "Never", "pytorch"), "Worker": replica(2, "OnFailure", "pytorch")}
    model = Model(manifest("PyTorchJob", roles))
    up(model)
    end = {"exitCode": 3, "finishedAt": model.now.isoformat(), "message": BOOM}
    row = {"name": "pytorch", "restartCount": 1, "lastState": {"terminated": end}}
    model.run("j-worker-1", containerStatuses=[{**row, "state": {"running": {}}}])
    crash(model, "j-master-0", 1, GLOO)
    model.settle()
    model.later(model.wait() or 0)
    model.settle()

    assert model.conditions()[-1] == "Failed"
    failure = model.status["failure"]
    assert failure["first"]["pod"] == "j-worker-1"
    assert failure["withoutRetry"]  # of the master, which may not restart


@pytest.mark.parametrize("restart", ["OnFailure", "Never"])
def test_victims_of_a_drained_replica_do_not_count(restart: str) -> None:
    model = running(restart=restart, runPolicy={"backoffLimit": 1})
    before = uids(model)
    crash(model, "j-master-0", 1, GLOO)
    crash(model, "j-worker-0", 1, GLOO)
    model.pod("j-worker-1", phase="Failed", reason="Evicted")
    model.settle()

    assert model.conditions() == ["Created", "Restarting"]
    assert "restarts" not in model.status
    assert model.status["restart"]["first"]["pod"] == "j-worker-1"
    assert not {*uids(model).values()} & {*before.values()}


def test_a_gang_that_crashes_once_too_often_names_the_crash_of_the_last_attempt() -> None:
    model = running(runPolicy={"backoffLimit": 2})
    crash(model, "j-worker-0", 3, BOOM)
    model.settle()
    up(model)
    crash(model, "j-master-0", 1, GLOO)
    crash(model, "j-worker-1", 3, BOOM)
    model.settle()

    failure = model.status["failure"]
    assert model.conditions()[-1] == "Failed"
    assert (failure["code"], failure["failures"]) == ("BackoffLimitExceeded", 2)
    assert failure["first"]["pod"] == "j-worker-1"
    assert model.view.restarts == 1


def test_the_node_does_not_restart_replicas_that_restart_together() -> None:
    model = running()
    assert {row["spec"]["restartPolicy"] for row in model.manifests.values()} == {"Never"}


def test_an_evaluator_fails_and_restarts_alone() -> None:
    roles = {"Worker": replica(2, "OnFailure"), "Evaluator": replica(1, "OnFailure")}
    model = running("TFJob", roles=roles)
    before = uids(model)
    assert model.manifests["j-evaluator-0"]["spec"]["restartPolicy"] == "OnFailure"
    crash(model, "j-evaluator-0", 1, BOOM)
    model.settle()
    assert {name for name in before if uids(model)[name] != before[name]} == {"j-evaluator-0"}
    assert model.status["restarts"] == 1

    up(model)
    before = uids(model)
    crash(model, "j-worker-1", 1, BOOM)
    model.settle()
    assert {name for name in before if uids(model)[name] == before[name]} == {"j-evaluator-0"}


def launcher_of(model: Model) -> str:
    """The launcher of the last attempt."""
    return [name for name in model.pods if "launcher" in name][-1]


def later_as_asked(model: Model) -> None:
    """Decide again when the last decision asked for it."""
    left = model.wait()
    assert left is not None
    model.later(left)
    model.settle()


def test_a_launcher_that_fails_is_retried_alone() -> None:
    model = running("MPIJob", runPolicy={"backoffLimit": 3})
    before = uids(model)
    crash(model, launcher_of(model), 1, BOOM)
    model.settle()
    later_as_asked(model)

    assert model.status["restarts"] == 1
    assert before.items() <= uids(model).items()
    assert len(model.pods) == len(before) + 1


PRRTE = "PRTE has lost communication with a remote daemon."
ENDS = [(0, ""), (0, PRRTE), (1, BOOM), (1, PRRTE), (137, "")]
"""How a launcher may end because it lost a worker."""


@pytest.mark.parametrize("order", ["worker first", "launcher first", "together"])
@pytest.mark.parametrize(("code", "words"), ENDS)
def test_a_killed_worker_is_one_failure_however_and_whenever_its_launcher_ends(
    code: int, words: str, order: str
) -> None:
    model = running("MPIJob", runPolicy={"backoffLimit": 3})
    model.later(100)
    before = uids(model)
    kill_worker(model, code, words, order)

    workers = {name for name in before if "worker" in name}
    assert model.status["restarts"] == 1
    assert model.status["restart"]["first"]["pod"] == "j-worker-1"
    assert all(uids(model)[name] != before[name] for name in workers)
    assert sum(restarting(model)) == 1
    up(model)
    model.later(100)
    assert model.conditions() == ["Created", "Running"]
    assert model.status["restarts"] == 1
    crash(model, launcher_of(model), 0)
    model.settle()
    later_as_asked(model)
    assert model.conditions()[-1] == "Succeeded"


@pytest.mark.parametrize("order", ["worker first", "launcher first", "together"])
@pytest.mark.parametrize(("code", "words"), ENDS)
def test_a_killed_worker_fails_a_job_without_another_attempt_and_is_to_blame(
    code: int, words: str, order: str
) -> None:
    model = running("MPIJob", "Never")
    model.later(100)
    kill_worker(model, code, words, order)

    failure = model.status["failure"]
    assert model.conditions()[-1] == "Failed"
    assert (failure["first"]["pod"], failure["count"]) == ("j-worker-1", 1)
    assert failure["withoutRetry"]


def kill_worker(model: Model, code: int, words: str, order: str) -> None:
    """Kill worker 1; the launcher ends a second later, and is perhaps reported first."""
    launcher = launcher_of(model)
    if order == "worker first":
        crash(model, "j-worker-1", 137)
        model.settle()
        model.later(1)
        if launcher in model.pods:
            crash(model, launcher, code, words)
        model.settle()
        return
    model.later(1)
    crash(model, launcher, code, words)
    if order == "launcher first":
        before = uids(model)
        model.settle()
        model.later(1)
        model.settle()
        assert uids(model) == before
        assert model.conditions() == ["Created", "Running"]
        model.later(-1)
    model.later(-1)
    crash(model, "j-worker-1", 137)
    model.later(2)
    model.settle()


def restarting(model: Model) -> list[bool]:
    return [event.reason.endswith("Restarting") for event in model.events]


def test_a_killed_worker_uses_up_the_last_attempt_of_a_job_whose_launcher_exits_0() -> None:
    model = running("MPIJob", runPolicy={"backoffLimit": 1})
    kill_worker(model, 0, PRRTE, "launcher first")

    failure = model.status["failure"]
    assert model.conditions()[-1] == "Failed"
    assert (failure["code"], failure["failures"]) == ("BackoffLimitExceeded", 1)
    assert failure["first"]["pod"] == "j-worker-1"


def test_an_evicted_worker_runs_again_without_a_failure_though_its_launcher_exits_0() -> None:
    model = running("MPIJob", "Never")
    model.later(100)
    before = uids(model)
    end = {"terminated": {"exitCode": 0, "finishedAt": model.now.isoformat()}}
    rows = [{"name": "mpi", "state": end}]
    crash(model, launcher_of(model), 0, PRRTE)
    model.pod("j-worker-1", phase="Failed", reason="Evicted", containerStatuses=rows)
    model.settle()

    assert model.conditions() == ["Created", "Restarting"]
    assert "restarts" not in model.status
    assert model.status["restart"]["first"]["pod"] == "j-worker-1"
    assert uids(model)["j-worker-0"] != before["j-worker-0"]


@pytest.mark.parametrize("deadline", [{}, {"activeDeadlineSeconds": 101}])
def test_a_launcher_that_exits_0_is_believed_two_seconds_later(deadline: Raw) -> None:
    model = running("MPIJob", runPolicy={"backoffLimit": 3, **deadline})
    model.later(101)
    before = uids(model)
    crash(model, launcher_of(model), 0)
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    model.later(1.5)
    assert model.wait() == 0.5
    model.settle()
    assert (model.conditions(), uids(model)) == (["Created", "Running"], before)

    later_as_asked(model)

    assert model.conditions()[-1] == "Succeeded"


def test_a_launcher_that_exits_0_before_a_worker_is_killed_has_succeeded() -> None:
    model = running("MPIJob", runPolicy={"backoffLimit": 3})
    crash(model, launcher_of(model), 0)
    model.later(1)
    crash(model, "j-worker-1", 137)
    model.settle()
    later_as_asked(model)

    assert model.conditions()[-1] == "Succeeded"


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_a_launcher_on_a_node_with_another_time_is_believed_at_once(ahead: int) -> None:
    model = running("MPIJob")
    model.later(ahead)
    crash(model, launcher_of(model), 0)
    model.later(-ahead)
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_an_elastic_launcher_that_exits_0_succeeds_at_once_without_the_killed_worker() -> None:
    launcher = replica(1, "OnFailure", "mpi")
    launcher["template"]["spec"]["containers"][0]["command"] = ["horovodrun", "-np", "2"]
    roles = {"Worker": replica(3, "OnFailure", "mpi"), "Launcher": launcher}
    model = running("MPIJob", roles=roles)
    crash(model, "j-worker-1", 137)
    crash(model, launcher_of(model), 0)
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


@pytest.mark.parametrize("order", ["launcher first", "together"])
def test_the_launcher_decides_at_once_where_replicas_restart_alone(order: str) -> None:
    model = running("MPIJob", settings=Settings())
    launcher = launcher_of(model)
    if order == "together":
        crash(model, "j-worker-1", 137)
    model.later(1)
    crash(model, launcher, 0)
    model.settle()

    assert model.conditions()[-1] == "Succeeded"


def test_a_launcher_that_fails_with_a_worker_is_retried_with_all_workers() -> None:
    model = running("MPIJob", runPolicy={"backoffLimit": 3})
    before = uids(model)
    launcher = next(name for name in before if "launcher" in name)
    crash(model, launcher, 1, "ORTE has lost communication with a remote daemon.")
    model.settle()
    assert uids(model) == before
    model.later(1)
    crash(model, "j-worker-1", 137)
    model.settle()

    assert model.status["restarts"] == 1
    assert model.status["restart"]["first"]["pod"] == "j-worker-1"
    workers = {name for name in before if "worker" in name}
    assert all(uids(model)[name] != before[name] for name in workers)
    up(model)
    assert model.conditions() == ["Created", "Running"]
    assert len(model.pods) == len(before) + 1  # the failed launcher stays, for its log


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "together"),
    [
        ("PyTorchJob", None, {}, True),
        ("JAXJob", None, {}, True),
        ("TFJob", None, {}, True),
        ("TFJob", {"Worker": replica(2, "OnFailure"), "PS": replica(1, "OnFailure")}, {}, False),
        ("PyTorchJob", None, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}, False),
    ],
)
def test_the_administrator_chooses_for_jobs_that_do_not_say(
    kind: str, roles: Raw | None, spec: Raw, together: bool
) -> None:
    more: dict[str, Any] = {"roles": roles, **spec} if roles else spec
    model = running(kind, settings=Settings(restart="gang"), **more)
    before = uids(model)
    crash(model, "j-worker-1", 1, BOOM)
    model.settle()

    kept = {name for name in before if uids(model)[name] == before[name]}
    assert bool(kept) != together


def test_a_job_that_says_replica_keeps_it_whatever_the_administrator_chose() -> None:
    raw = running(settings=Settings(restart="gang")).raw
    raw["metadata"]["annotations"] = {"muster.dev/restart": "replica"}
    model = Model({**raw, "status": {}}, Settings(restart="gang"))
    up(model)
    before = uids(model)
    crash(model, "j-worker-0", 1, BOOM)
    model.settle()
    assert {name for name in before if uids(model)[name] != before[name]} == {"j-worker-0"}


def crashes_alone(kind: str, policy: str, count: int, apart: float = 0) -> Model:
    """A job without the annotation, some of whose workers crash one after the other."""
    roles = {"Master": replica(1, policy, "pytorch"), "Worker": replica(3, policy, "pytorch")}
    model = Model(manifest(kind, roles, runPolicy={"backoffLimit": count}))
    up(model)
    for index in range(count):
        model.later(apart)
        end = {"exitCode": 137, "finishedAt": timestamp(model.now)}
        row = {"name": "pytorch", "restartCount": 1, "lastState": {"terminated": end}}
        if policy == "OnFailure":
            model.pod(f"j-worker-{index}", phase="Running", containerStatuses=[row])
        else:
            crash(model, f"j-worker-{index}", 137)
        model.settle()
    assert model.conditions()[-1] == "Failed"
    return model


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode"])
def test_the_hint_of_replicas_that_failed_at_once_and_each_counted_names_the_gang(
    policy: str,
) -> None:
    together = crashes_alone("PyTorchJob", policy, 3, apart=1)

    assert "muster.dev/restart: gang" in together.view.remedy
    assert together.view.remedy in together.status["conditions"][-1]["message"]
    assert not crashes_alone("PyTorchJob", policy, 3, apart=60).view.remedy
    assert not crashes_alone("PyTorchJob", policy, 1).view.remedy


def test_a_gang_that_uses_up_its_retries_has_no_hint_about_gangs() -> None:
    model = running(runPolicy={"backoffLimit": 1})
    for name in sorted(model.pods):
        crash(model, name, 137)
    model.settle()

    assert model.conditions()[-1] == "Failed"
    assert not model.view.remedy
