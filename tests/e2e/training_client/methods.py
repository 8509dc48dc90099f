"""Every method of Kubeflow's TrainingClient on the local cluster."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kubeflow.training import models

from tests.e2e.training_client.objects import client, finish, host_directory, job
from tests.waiting import until

__all__ = ["client"]
kubernetes: Any = importlib.import_module("kubernetes")  # generated types say too little
WAIT = ["sleep", "600"]


def show(parameters: dict[str, float]) -> None:
    import os

    print("rate", parameters["rate"], os.environ["RUN"], flush=True)


def count(parameters: dict[str, int]) -> None:
    import time

    for number in range(parameters["lines"]):
        print("line", number, flush=True)
        time.sleep(0.1)  # pace: lines that are still to come


def fail() -> None:
    raise ValueError("the loss is not a number")


def use_package() -> None:
    import tinypackage  # type: ignore[import-not-found]

    print("version", tinypackage.VERSION, flush=True)


def test_every_public_method_of_the_client_is_called_here(client: Any) -> None:
    rows = inspect.getmembers(type(client), inspect.isfunction)
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("*.py"))

    methods = {name for name, _ in rows if not name.startswith("_")}

    assert {name for name in methods if f"client.{name}(" not in tests} == set()
    assert len(methods) >= 16


def test_a_function_gets_its_parameters_and_its_job_is_described(client: Any) -> None:
    client.create_job(
        name="shown",
        train_func=show,
        parameters={"rate": 0.5},
        labels={"team": "a"},
        annotations={"note": "b"},
        env_vars={"RUN": "seven"},
        resources_per_worker={"cpu": "100m", "memory": "256Mi"},
    )

    finished = finish(client, "shown", "PyTorchJob")

    logs, events = client.get_job_logs("shown", verbose=True)
    assert logs == {"shown-master-0": "rate 0.5 seven\n"}
    assert any("Created pod: shown-master-0" in text for text in events["pytorchjob/shown"])
    assert any("Started container pytorch" in text for text in events["pod/shown-master-0"])
    assert finished.metadata.labels == {"team": "a"}
    assert finished.metadata.annotations == {"note": "b"}
    assert finished.status.replica_statuses["Master"].succeeded == 1
    (pod,) = client.get_job_pods("shown")
    assert pod.spec.containers[0].resources.limits == {"cpu": "100m", "memory": "256Mi"}
    assert [row.type for row in client.get_job_conditions("shown")] == [
        "Created",
        "Running",
        "Succeeded",
    ]
    assert client.is_job_created("shown")
    assert client.is_job_succeeded("shown")
    assert not client.is_job_running("shown")
    assert not client.is_job_failed(job=finished)
    assert not client.is_job_restarting(job=finished)
    assert "shown" in [each.metadata.name for each in client.list_jobs()]


def test_logs_are_followed_to_their_end(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lines = 20
    client.create_job(
        name="followed",
        job_kind="TFJob",
        train_func=count,
        parameters={"lines": lines},
        num_workers=2,
    )
    client.wait_for_job_conditions(
        "followed", job_kind="TFJob", expected_conditions={"Running"}, polling_interval=0.1
    )
    pods = client.get_job_pod_names("followed")
    until(lambda: phases(client, "followed") == {"Running"}, what="both pods run")

    logs, _ = client.get_job_logs("followed", job_kind="TFJob", is_master=False, follow=True)

    # The client takes the ends of lines away.
    assert logs == dict.fromkeys(pods, "".join(f"line {n}" for n in range(lines)))
    assert "[Pod followed-worker-1]: line 19" in capsys.readouterr().out
    finish(client, "followed", "TFJob")


def test_pods_are_found_by_role_and_index(client: Any) -> None:
    roles = {"Chief": 1, "PS": 1, "Worker": 2}
    client.create_job(job("TFJob", "roles", roles, WAIT))
    names = [f"roles-{name}" for name in ("chief-0", "ps-0", "worker-0", "worker-1")]

    until(lambda: client.get_job_pod_names("roles") == names, what="all pods")

    assert client.get_job_pod_names("roles", is_master=True) == ["roles-chief-0"]
    assert client.get_job_pod_names("roles", replica_type="ps") == ["roles-ps-0"]
    chosen = client.get_job_pods("roles", replica_type="worker", replica_index=1)
    assert [pod.metadata.name for pod in chosen] == ["roles-worker-1"]
    client.delete_job("roles", job_kind="TFJob")


def test_a_job_is_changed_suspended_and_resumed(client: Any) -> None:
    client.create_job(job("PyTorchJob", "changed", {"Master": 1, "Worker": 1}, WAIT))
    reach(client, "changed", "Running")

    change(client, "changed", replicas=2)
    until(lambda: "changed-worker-1" in client.get_job_pod_names("changed"), what="a new worker")
    change(client, "changed", suspend=True)
    until(lambda: not client.get_job_pods("changed"), what="no pods")
    assert not client.is_job_running("changed")
    change(client, "changed", suspend=False)

    reach(client, "changed", "Running")
    client.delete_job("changed")


def test_a_function_that_raises_fails_its_job(client: Any) -> None:
    client.create_job(name="raises", job_kind="TFJob", train_func=fail)

    with pytest.raises(RuntimeError, match="TFJob default/raises is Failed"):
        client.wait_for_job_conditions(
            "raises", job_kind="TFJob", polling_interval=0.2, wait_timeout=60
        )

    assert client.is_job_failed("raises", job_kind="TFJob")
    logs, _ = client.get_job_logs("raises", job_kind="TFJob")
    assert logs["raises-worker-0"].endswith("ValueError: the loss is not a number\n")


def test_a_job_with_a_retryable_exit_code_is_restarting(client: Any) -> None:
    command = ["sh", "-c", "exit 137"]
    client.create_job(job("JAXJob", "again", {"Worker": 1}, command, restart="ExitCode"))

    reach(client, "again", "Restarting", kind="JAXJob")

    client.delete_job("again", job_kind="JAXJob")


def test_a_deleted_job_is_gone_with_its_pods(client: Any) -> None:
    client.create_job(job("MPIJob", "gone", {"Launcher": 1, "Worker": 1}, WAIT))
    reach(client, "gone", "Running", kind="MPIJob")
    options = models.V1DeleteOptions(grace_period_seconds=0, propagation_policy="Foreground")

    client.delete_job("gone", job_kind="MPIJob", delete_options=options)

    until(lambda: not client.list_jobs(job_kind="MPIJob"), what="no job")
    assert client.get_job_pods("gone") == []
    with pytest.raises(RuntimeError, match=r'mpijobs.kubeflow.org \\"gone\\" not found'):
        client.get_job("gone", job_kind="MPIJob")


def test_packages_are_installed_before_the_function_runs(client: Any, tmp_path: Path) -> None:
    write_package_index(tmp_path)
    client.create_job(
        name="packages",
        train_func=use_package,
        packages_to_install=["tinypackage"],
        pip_index_url=tmp_path.as_uri(),
        **host_directory(tmp_path),
    )

    finish(client, "packages", "PyTorchJob")

    logs, _ = client.get_job_logs("packages")
    assert logs["packages-master-0"].splitlines()[-1] == "version 7"
    (pod,) = client.get_job_pods("packages")
    assert "muster.dev/FilesDiscarded" not in [row.type for row in pod.status.conditions]
    assert not list(Path(sys.prefix).rglob("tinypackage*"))


def test_kinds_that_muster_does_not_run_are_refused(client: Any) -> None:
    for kind in ("XGBoostJob", "PaddleJob"):
        with pytest.raises(RuntimeError, match=rf"Failed to create {kind}: (?s:.*)\(404\)"):
            client.create_job(job(kind, "other", {"Master": 1, "Worker": 1}, WAIT))
        with pytest.raises(RuntimeError, match=r"\(404\)"):
            client.list_jobs(job_kind=kind)


def test_an_image_without_a_function_has_no_command_to_run(client: Any) -> None:
    client.create_job(name="image", base_image="docker.io/library/busybox:1")

    message = "no command: there is no image to take one from, so set command or args"
    assert waiting_message(client, "image") == message
    client.delete_job("image")


def test_a_queue_of_kueue_becomes_a_label(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        client.create_job(job("JAXJob", "queued", {"Worker": 1}, ["true"]), queue_name="fast")

    finished = finish(client, "queued", "JAXJob")

    assert finished.metadata.labels == {"kueue.x-k8s.io/queue-name": "fast"}
    assert "Queue 'fast' does not exist in namespace 'default'" in caplog.text


def test_the_client_works_inside_a_pod(client: Any) -> None:
    script = (
        "from kubeflow.training import TrainingClient\n"
        "client = TrainingClient(job_kind='JAXJob')\n"
        "print(client.namespace, [job.metadata.name for job in client.list_jobs()])"
    )
    let_account_list_jobs(client, "lister")
    wanted = job("JAXJob", "inside", {"Worker": 1}, ["python", "-c", script])
    wanted.spec.jax_replica_specs["Worker"].template.spec.service_account_name = "lister"
    client.create_job(wanted)

    finish(client, "inside", "JAXJob")

    logs, _ = client.get_job_logs("inside", job_kind="JAXJob")
    assert re.fullmatch(r"default \[.*'inside'.*\]\n", logs["inside-worker-0"])


def test_train_creates_its_claim_and_its_job(client: Any, hugging_face: Any) -> None:
    """The images of `train` have programs of their own, which the local cluster does not have."""
    client.train(
        name="tuned",
        num_workers=2,
        resources_per_worker={"cpu": "100m"},
        model_provider_parameters=hugging_face.HuggingFaceModelParams("hf://bert", object),
        dataset_provider_parameters=hugging_face.HuggingFaceDatasetParams("yelp"),
        trainer_parameters=hugging_face.HuggingFaceTrainerParams(),
    )

    claim = client.core_api.read_namespaced_persistent_volume_claim("tuned", "default")
    assert claim.spec.resources.requests == {"storage": "10Gi"}
    names = ["tuned-master-0", "tuned-worker-0"]
    until(lambda: client.get_job_pod_names("tuned") == names, what="both pods")
    assert waiting_message(client, "tuned") == (
        "no command: args are for the program of an image, and there is none, so set command"
    )
    client.delete_job("tuned")


@pytest.fixture
def hugging_face(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The parameters of `train`, with doubles of the two packages that need PyTorch."""
    purposes = [
        *("SequenceClassification", "TokenClassification", "QuestionAnswering"),
        *("CausalLM", "MaskedLM", "ImageClassification"),
    ]
    transformers, peft = ModuleType("transformers"), ModuleType("peft")
    for name in purposes:
        setattr(transformers, f"AutoModelFor{name}", type(name, (), {}))
    settings = type("Settings", (), {"to_dict": lambda _: {"r": 8}})
    vars(transformers)["TrainingArguments"] = vars(peft)["LoraConfig"] = settings
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "peft", peft)
    module = "kubeflow.storage_initializer.hugging_face"
    yield importlib.import_module(module)
    del sys.modules[module]


def let_account_list_jobs(client: Any, name: str) -> None:
    """Create a service account with this right."""
    meta = {"name": name}
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["*"], "verbs": ["list"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    rights = kubernetes.client.RbacAuthorizationV1Api(client.core_api.api_client)
    client.core_api.create_namespaced_service_account("default", {"metadata": meta})
    rights.create_namespaced_role("default", {"metadata": meta, "rules": [rule]})
    binding = {"metadata": meta, "roleRef": role, "subjects": [subject]}
    rights.create_namespaced_role_binding("default", binding)


def phases(client: Any, name: str) -> set[str]:
    return {pod.status.phase for pod in client.get_job_pods(name)}


def reach(client: Any, name: str, condition: str, kind: str = "PyTorchJob") -> None:
    client.wait_for_job_conditions(
        name,
        job_kind=kind,
        expected_conditions={condition},
        polling_interval=0.1,
        wait_timeout=30,
    )


def change(client: Any, name: str, **fields: Any) -> None:
    """Change the job's suspension or its number of workers, as it is now."""
    current = client.get_job(name)
    if "suspend" in fields:
        current.spec.run_policy.suspend = fields["suspend"]
    else:
        current.spec.pytorch_replica_specs["Worker"].replicas = fields["replicas"]
    current.metadata.resource_version = None  # the operator writes the status meanwhile
    client.update_job(current, name)


def waiting_message(client: Any, name: str) -> str:
    """Why a container of the job's first pod waits."""

    def message() -> str:
        for pod in client.get_job_pods(name, is_master=True):
            rows = [*(pod.status.init_container_statuses or ())]
            rows += pod.status.container_statuses or ()
            waiting = [row.state.waiting for row in rows if row.state and row.state.waiting]
            messages = [row.message for row in waiting if row.message]
            if messages:
                return str(messages[0])
        return ""

    return until(message, what="a reason")


def write_package_index(folder: Path) -> None:
    """A package index in files, with one package."""
    name = "tinypackage-7-py3-none-any.whl"
    place = folder / "tinypackage"
    place.mkdir()
    (place / "index.html").write_text(f'<a href="{name}">{name}</a>')
    info = "tinypackage-7.dist-info"
    with zipfile.ZipFile(place / name, "w") as wheel:
        wheel.writestr("tinypackage.py", "VERSION = 7\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinypackage\nVersion: 7\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"tinypackage.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
