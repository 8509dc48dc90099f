"""`arena logs` of a job without pods, or without its chief, waits only if they can still come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest

from kubekit.errors import MusterError
from kubekit.objects.core import Pod
from kubekit.objects.meta import Key
from muster.client.jobs import instances, lookup
from muster.client.jobs.instances import wait_for_instances
from muster.client.logs import job_logs
from muster.jobs.view.summary import JobSummary, summarize
from tests.muster.cli import fake_cluster
from tests.muster.cli.fake_cluster import Raw, Scene


def job(*conditions: dict[str, str]) -> JobSummary:
    raw: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j", "namespace": "default", "uid": "u"},
        "status": {"conditions": list(conditions)},
    }
    return summarize(raw, [])


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("ended", [(0, 0), (0, 1)])
def test_a_job_that_failed_without_pods_is_not_waited_for(
    follow: bool, ended: tuple[int, int]
) -> None:
    failed = job({"type": "Failed", "status": "True", "message": "no"})
    failed = msgspec.structs.replace(failed, ended=ended)

    with pytest.raises(MusterError, match="the job j has failed and has no pods") as error:
        wait_for_instances(cast(Any, None), failed, follow=follow)
    assert ("--clean-task-policy=None" in error.value.hint) == any(ended)


def test_without_follow_a_job_that_has_no_pods_yet_is_not_waited_for() -> None:
    with pytest.raises(MusterError, match="has no replicas yet"):
        wait_for_instances(cast(Any, None), job(), follow=False)


@dataclass
class Unfolding:
    """A cluster that is another at every look at a job's pods; at last only this is there."""

    scene: Scene
    looks: list[list[Raw]]

    def __call__(self, client: Any, of: Key) -> list[Pod]:
        if self.looks:
            self.scene.objects["pods"] = self.looks.pop(0)
        return LABELLED_PODS(client, of)


LABELLED_PODS = lookup.labelled_pods


@pytest.fixture
def mpi(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """An MPI job whose workers are there before its launcher is."""
    monkeypatch.setattr(instances, "POLL_SECONDS", 0)
    started = fake_cluster.condition(
        fake_cluster.job("MPIJob", "mpi", {"Launcher": 1, "Worker": 2}), "Created"
    )
    workers = [fake_cluster.pod(started, "worker", i, phase="Running") for i in range(2)]
    launcher = fake_cluster.pod(started, "launcher", 0, phase="Succeeded", name="mpi-launcher-x")
    scene.objects = {"mpijobs": [started], "pods": workers}
    unfolding = Unfolding(scene, [workers, workers, [*workers, launcher]])
    monkeypatch.setattr(lookup, "labelled_pods", unfolding)
    return scene


def test_following_an_mpi_job_waits_for_its_launcher(
    mpi: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Key] = []

    def follow_replica(_: Any, __: Any, pod: Key, *___: Any) -> list[tuple[Key, bytes]]:
        read.append(pod)
        return []

    monkeypatch.setattr(job_logs, "follow_replica", follow_replica)

    code, _, err = mpi.arena("logs", "-f", "mpi")

    assert (code, read) == (0, [Key("default", "mpi-launcher-x")])
    assert err == "waiting for the launcher of mpi …\n"


@pytest.mark.parametrize(
    "words",
    [("tf",), ("tf", "-i", "tf-worker-0"), ("tf-worker-0",), ("pod/tf-worker-0",), ("tf", "--all")],
)
def test_the_log_of_a_pod_without_a_node_says_why_it_is_empty(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    job = fake_cluster.condition(fake_cluster.job("TFJob", "tf", {"Worker": 1}), "Created")
    pod = fake_cluster.pod(job, "worker", 0, why="0 of 1 worker fits")
    scene.objects = {"tfjobs": [job], "pods": [pod]}
    monkeypatch.setattr(job_logs, "read_log", lambda *_: [])

    code, out, err = scene.arena("logs", *words)

    assert (code, out) == (0, "")
    assert err == "tf-worker-0 has no log yet, because it waits for a node: 0 of 1 worker fits\n"


def test_the_logs_of_all_pods_of_a_gang_without_nodes_say_why_they_are_empty(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fake_cluster.condition(fake_cluster.job("TFJob", "tf", {"Worker": 2}), "Created")
    why = "1 of 2 workers fits"
    pods = [fake_cluster.pod(job, "worker", index, why=why) for index in (0, 1)]
    scene.objects = {"tfjobs": [job], "pods": pods}
    monkeypatch.setattr(job_logs, "read_log", lambda *_: [])

    code, out, err = scene.arena("logs", "--all", "tf")

    assert (code, out) == (0, "")
    assert err == f"no pod of tf has a log yet, because they wait for a node: {why}\n"


def test_without_follow_a_missing_launcher_is_an_error(mpi: Scene) -> None:
    code, _, err = mpi.arena("logs", "mpi")

    assert code == 1
    assert err == (
        "error: the launcher of mpi is not there yet\n"
        "`arena logs -f mpi` waits for it; -i reads another replica: mpi-worker-0, mpi-worker-1\n"
    )


def test_following_ends_when_the_job_ends_without_a_launcher(mpi: Scene) -> None:
    failed = fake_cluster.condition(mpi.objects["mpijobs"][0], "Failed", "no room")
    mpi.objects["mpijobs"] = [failed]

    code, _, err = mpi.arena("logs", "-f", "mpi")

    assert code == 1
    assert "the job mpi has failed; its launcher has no pod: no room" in err


def test_following_a_job_that_ends_without_pods_reports_its_reason(
    mpi: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = fake_cluster.condition(mpi.objects["mpijobs"][0], "Failed", "no room")

    def end(_: float) -> None:
        mpi.objects |= {"mpijobs": [failed], "pods": []}
        monkeypatch.setattr(lookup, "labelled_pods", LABELLED_PODS)

    monkeypatch.setattr("muster.client.jobs.instances.time.sleep", end)

    code, _, err = mpi.arena("logs", "-f", "mpi")

    assert code == 1
    assert "the job mpi has failed and has no pods: no room" in err


def test_waiting_for_pods_or_the_launcher_reports_the_reason(
    mpi: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_logs, "follow_replica", lambda *_: [])
    waits = [fake_cluster.pod(mpi.objects["mpijobs"][0], "worker", 0, why="short 2 GPUs")]
    launcher = fake_cluster.pod(mpi.objects["mpijobs"][0], "launcher", 0, phase="Succeeded")
    monkeypatch.setattr(lookup, "labelled_pods", Unfolding(mpi, [[], [], waits, waits, [launcher]]))

    code, _, err = mpi.arena("logs", "-f", "mpi")

    assert code == 0
    assert err == ("waiting for the pods of mpi …\nwaiting for the launcher of mpi: short 2 GPUs\n")


@pytest.mark.parametrize(("words", "log"), [((), []), (("--all",), [b"a line\n"])])
def test_the_reason_of_a_failed_job_is_told_beside_a_log_that_does_not_show_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], log: list[bytes]
) -> None:
    job = fake_cluster.job("TFJob", "tf", {"Worker": 1})
    failed = fake_cluster.condition(job, "Failed", "worker 0 could not start")
    pod = fake_cluster.pod(job, "worker", 0, phase="Failed")
    scene.objects = {"tfjobs": [failed], "pods": [pod]}
    monkeypatch.setattr(job_logs, "read_log", lambda *_: log)

    code, _, err = scene.arena("logs", "tf", *words)

    assert code == 0
    assert err == "the job tf failed: worker 0 could not start\n"
