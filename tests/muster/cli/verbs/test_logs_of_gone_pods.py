"""`arena logs` of instances that are gone and of earlier attempts, where a cluster keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.meta import Key
from tests.muster.cli import fake_cluster
from tests.muster.cli.fake_cluster import Raw, Scene
from tests.muster.words import exited

FAILURE = {
    "code": "ReplicasFailed",
    "role": "Worker",
    "count": 1,
    "first": {
        "pod": "tf-worker-1",
        "role": "worker",
        "index": 1,
        "exitCode": 1,
        "lastLines": ["Traceback:", "ValueError: boom"],
    },
}


def pod_log(
    job: Raw, index: int, attempt: int = 0, uid: str = "", container: str = "c", **fields: Any
) -> Raw:
    """The log of one attempt at a worker's container; later attempts started later."""
    pod = fake_cluster.pod(job, "worker", index)
    uid = uid or f"gone-{index}"
    meta = pod["metadata"] | {"name": f"{uid}.{container}.{attempt}", "uid": ""}
    return {
        "metadata": meta,
        "podName": pod["metadata"]["name"],
        "podUid": uid,
        "container": container,
        "attempt": attempt,
        "archived": True,
        "exitCode": 1,
        "finishedAt": f"2026-01-02T03:04:0{attempt}Z",
        **fields,
    }


@pytest.fixture
def failed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A failed job of three workers whose pods are gone; worker 1 was tried twice."""
    job = fake_cluster.condition(fake_cluster.job("TFJob", "tf", {"Worker": 3}), "Failed")
    job["status"]["failure"] = FAILURE
    rows = [pod_log(job, 0), pod_log(job, 1), pod_log(job, 1, 1), pod_log(job, 2)]
    other = pod_log(job, 0, uid="of-a-former-job")
    other["metadata"]["ownerReferences"] = [{"uid": "former", "controller": True}]
    scene.objects = {"tfjobs": [job], "pods": [], "podlogs": [*rows, other]}

    def log_of(_: Any, kind: Any, key: Key, **options: Any) -> Iterator[bytes]:
        assert not options["follow"]
        tail = f" tail={options['tail']}" if options["tail"] else ""
        yield f"log of {key.name}{tail}\n".encode()

    def logs(_: Any, key: Key, **options: Any) -> Iterator[bytes]:
        previous = " previous" if options["previous"] else ""
        yield f"log of the pod {key.name}{previous}\n".encode()

    monkeypatch.setattr(BlockingClient, "log_of", log_of)
    monkeypatch.setattr(BlockingClient, "logs", logs)
    return scene


@pytest.mark.parametrize("flags", [[], ["-f"]])
def test_the_log_of_a_failed_job_names_the_pod_that_failed(failed: Scene, flags: list[str]) -> None:
    code, out, err = failed.arena("logs", "tf", *flags)

    assert (code, out) == (0, "log of gone-0.c.0\n")
    assert err == (f"the job tf failed: worker 1 {exited(1)}.\n  Traceback:\n  ValueError: boom\n")


def test_get_of_a_job_whose_pods_are_gone_names_the_command_for_its_logs(failed: Scene) -> None:
    failed.objects["tfjobs"][0]["status"]["restarted"] = {"tf-worker-1": 1}
    _, out, _ = failed.arena("get", "tf")

    assert out.partition("Instances:")[2] == (
        "\n  Its pods are gone (cleaned up); "
        "their logs stay: arena logs tf -i tf-worker-1 -n default\n"
        "  Restarts of replicas without a pod: worker-1 1\n"
    )


def test_get_of_a_job_whose_logs_are_gone_too_has_the_restarts_of_its_status(failed: Scene) -> None:
    failed.objects["podlogs"] = []
    status = failed.objects["tfjobs"][0]["status"]
    status |= {
        "earlierRestarts": {"worker-1": 2},
        "replicaStatuses": {"Worker": {"failed": 1, "succeeded": 2}},
    }
    _, out, _ = failed.arena("get", "tf")

    assert out.partition("Instances:")[2] == (
        "\n  Its pods are gone (cleaned up); their logs too\n"
        "  Restarts of replicas without a pod: worker-1 2\n"
    )


@pytest.mark.parametrize("flags", [[], ["-f"]])
def test_all_replicas_of_a_finished_job_are_shown(failed: Scene, flags: list[str]) -> None:
    code, out, err = failed.arena("logs", "tf", "--all", "--tail", "5", *flags)

    assert code == 0
    assert sorted(out.splitlines()) == [
        "tf-worker-0 | log of gone-0.c.0 tail=5",
        "tf-worker-1 | log of gone-1.c.1 tail=5",
        "tf-worker-2 | log of gone-2.c.0 tail=5",
    ]
    assert err == (
        "tf-worker-1: attempt 2 of 2, ended 2026-01-02T03:04:01Z with exit code 1\n"
        f"the job tf failed: worker 1 {exited(1)}.\n"
    )


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["tf", "-i", "tf-worker-2"], "log of gone-2.c.0\n"),
        (["tf", "-i", "tf-worker-1"], "log of gone-1.c.1\n"),
        (["tf", "-i", "tf-worker-1", "--previous"], "log of gone-1.c.0\n"),
        (["tf", "-i", "tf-worker-1", "--attempt", "1"], "log of gone-1.c.0\n"),
        (["tf-worker-1"], "log of gone-1.c.1\n"),
        (["pod/tf-worker-1", "--previous"], "log of gone-1.c.0\n"),
    ],
)
def test_the_log_of_a_deleted_pod_is_read_by_its_name(
    failed: Scene, words: list[str], output: str
) -> None:
    code, out, _ = failed.arena("logs", *words)

    assert (code, out) == (0, output)


def test_an_attempt_that_does_not_exist_is_an_error(failed: Scene) -> None:
    code, out, err = failed.arena("logs", "tf", "--previous")
    assert (code, out, err.splitlines()[0]) == (2, "", "error: tf-worker-0 was not restarted")

    code, out, err = failed.arena("logs", "tf-worker-1", "--attempt", "3")
    assert (code, out) == (2, "")
    assert err == "error: tf-worker-1 has no attempt 3\nThe cluster has the logs of 2 attempts.\n"

    code, out, err = failed.arena("logs", "tf", "--all", "--attempt", "2")
    assert (code, out) == (0, "tf-worker-1 | log of gone-1.c.1\n")
    assert err.splitlines()[:2] == ["tf-worker-0 has no attempt 2", "tf-worker-2 has no attempt 2"]

    assert failed.arena("logs", "tf", "--attempt", "1", "--previous")[0] == 2
    assert failed.arena("logs", "job/tf-worker-1")[0] == 3


def test_a_replica_that_was_stopped_before_it_started_has_no_previous_log(failed: Scene) -> None:
    failed.objects["tfjobs"][0]["status"]["earlierRestarts"] = {"worker-0": 1}

    code, out, err = failed.arena("logs", "tf", "--previous")

    assert (code, out) == (2, "")
    assert err == (
        "error: tf-worker-0 has no log from before its restart\n"
        "The cluster has the logs of 1 attempt.\n"
    )


def test_a_failed_init_container_is_read_if_no_other_ran(failed: Scene) -> None:
    job = failed.objects["tfjobs"][0]
    failed.objects["podlogs"] = [pod_log(job, 0, container="init-code", init=True)]

    assert failed.arena("logs", "tf")[1] == "log of gone-0.init-code.0\n"


def test_a_pod_that_was_recreated_and_waits_shows_its_last_attempt(
    failed: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fake_cluster.condition(failed.objects["tfjobs"][0], "Restarting")
    failed.objects |= {"tfjobs": [job], "pods": [fake_cluster.pod(job, "worker", 1, why="full")]}

    def waiting(*_: object, **__: object) -> Iterator[bytes]:
        from kubekit.request_errors import BadRequest

        raise BadRequest("container c is waiting to start")
        yield b""

    monkeypatch.setattr(BlockingClient, "logs", waiting)

    code, out, err = failed.arena("logs", "tf", "-i", "tf-worker-1")

    assert (code, out) == (0, "log of gone-1.c.1\n")
    assert err.splitlines()[0] == (
        "container c is waiting to start: full; this is the log of its last attempt"
    )
    assert failed.arena("logs", "tf-worker-1", "--previous")[1] == "log of gone-1.c.1\n"


@pytest.mark.parametrize("reason", ["not served", "forbidden"])
def test_a_cluster_without_an_archive_has_logs_of_existing_pods(failed: Scene, reason: str) -> None:
    if reason == "forbidden":
        failed.forbidden = {"podlogs"}
    else:
        del failed.objects["podlogs"]
    code, _, err = failed.arena("logs", "tf")
    assert code == 1
    assert "the job tf has failed and has no pods" in err

    job = failed.objects["tfjobs"][0]
    failed.objects["pods"] = [fake_cluster.pod(job, "worker", 0, phase="Running")]
    assert failed.arena("logs", "tf", "--previous")[1] == ("log of the pod tf-worker-0 previous\n")
    assert failed.arena("logs", "tf-worker-1")[0] == 3
