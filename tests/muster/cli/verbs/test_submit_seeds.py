"""The seeds' submit commands, word for word: their objects and their output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.muster.cli.seeds import SEEDS
from tests.muster.cli.submit_dry_run import Machine


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    return Machine(tmp_path, capsys, monkeypatch)


def words(seed: str) -> list[str]:
    """The command without its first word, which `Machine.dry` writes."""
    return SEEDS[seed][1:]


def test_the_tensorflow_command_gives_one_server_and_two_workers(machine: Machine) -> None:
    built = machine.dry(*words("tensorflow"))

    assert [item["kind"] for item in built.objects] == ["ConfigMap", "TFJob"]
    assert list(built.replicas) == ["PS", "Worker"]
    assert (built.at("PS/replicas"), built.at("Worker/replicas")) == (1, 2)
    assert built.at("main:PS/image") == "tensorflow/tensorflow:1.5.0-devel"
    assert built.at("main:Worker/image") == "tensorflow/tensorflow:1.5.0-devel-gpu"
    assert built.at("main:PS/resources") is None
    assert built.at("main:Worker/resources/limits") == {"nvidia.com/gpu": "1"}
    assert built.at("main:PS/ports") == [{"name": "tfjob-port", "containerPort": 22223}]
    assert built.at("main:Worker/ports") == [{"name": "tfjob-port", "containerPort": 22222}]
    assert built.at("job/metadata/annotations/requestGPUsOfJobOwner") == "2"
    assert built.at("job/metadata/annotations/muster.dev~restart") is None
    command = built.at("main:Worker/command")
    assert command[:2] == ["sh", "-c"]
    assert command[2].endswith("/distributed-mnist/main.py --logdir /training_logs")


@pytest.mark.parametrize("role", ["PS", "Worker"])
def test_the_code_is_fetched_into_the_directory_of_the_command(machine: Machine, role: str) -> None:
    built = machine.dry(*words("tensorflow"))

    variables = {row["name"]: row["value"] for row in built.at(f"init:{role}/env")}
    assert variables["GIT_SYNC_REPO"] == "https://github.com/cheyang/tensorflow-sample-code.git"
    assert variables["GIT_SYNC_DEST"] == "tensorflow-sample-code"
    assert built.at(f"init:{role}/volumeMounts/code-sync/mountPath") == "/code"
    assert built.at(f"main:{role}/volumeMounts/code-sync/mountPath") == "/root/code"
    assert built.at(f"main:{role}/workingDir") == "/root"


@pytest.mark.parametrize(("seed", "workers"), [("mpi of 5", 5), ("mpi of 4", 4)])
def test_the_mpi_command_gives_a_gang_of_workers_and_a_launcher_outside_it(
    machine: Machine, seed: str, workers: int
) -> None:
    built = machine.dry(*words(seed))

    assert built.at("Worker/replicas") == workers
    assert built.at("main:Worker/resources/limits") == {"nvidia.com/gpu": "2"}
    assert built.at("main:Launcher/resources") is None
    assert built.at("job/metadata/annotations/muster.dev~gang") == "true"
    assert built.at("job/metadata/annotations/muster.dev~restart") == "gang"
    assert built.at("job/metadata/annotations/requestGPUsOfJobOwner") == str(2 * workers)
    labels = built.at("Worker/template/metadata/labels")
    assert labels["pod-group.scheduling.sigs.k8s.io/name"] == "mpijob-mpi-dist"
    assert labels["pod-group.scheduling.sigs.k8s.io/min-available"] == str(workers)
    assert not any("pod-group" in name for name in built.at("Launcher/template/metadata/labels"))
    assert built.at("main:Launcher/command")[2].startswith("exec mpirun python code/benchmarks/")
    assert built.at("main:Worker/command") is None


def test_the_branch_of_the_mpi_command_reaches_the_container_that_fetches(
    machine: Machine,
) -> None:
    built = machine.dry(*words("mpi of 5"))

    branch = "cnn_tf_v1.9_compatible"
    assert built.at("init:Worker/env/GIT_SYNC_BRANCH/value") == branch
    assert built.at("main:Worker/env/GIT_SYNC_BRANCH/value") == branch


def test_the_tensorboard_of_the_mpi_command_is_outside_the_gang_and_reads_its_logs(
    machine: Machine,
) -> None:
    built = machine.dry(*words("mpi of 5"))

    template: Any = built.at("Deployment/spec/template")
    assert not any("pod-group" in name for name in template["metadata"]["labels"])
    assert "schedulerName" not in template["spec"]
    main = template["spec"]["containers"][0]
    assert main["command"][:3] == ["tensorboard", "--logdir", "/output/training_logs"]
    logs = built.at("pod:Worker/volumes/training-logs-volume/hostPath")
    assert template["spec"]["volumes"] == [{"name": "training-logs-volume", "hostPath": logs}]
    assert built.at("main:Worker/volumeMounts/training-logs-volume/mountPath") == "/training_logs"
    assert built.at("Service/spec/type") == "NodePort"
    assert built.at("Service/spec/ports")[0]["port"] == 6006
    assert built.at("Service/spec/selector").items() <= template["metadata"]["labels"].items()
