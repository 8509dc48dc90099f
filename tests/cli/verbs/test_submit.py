"""`arena submit` on an API server: all of a job or nothing, arena's words, files, defaults."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.api import crds
from muster.api.kinds import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    JAXJOBS,
    NAMESPACES,
    SERVICES,
    TFJOBS,
    Kind,
)
from muster.api.meta import Key, Raw
from muster.client.submit import transaction
from muster.errors import Forbidden, NotFound, ServerError, Unreachable
from muster.jobs.build import job_manifest
from muster.jobs.build.flags import TensorFlow, flags_of
from muster.jobs.build.job_manifest import Bundle
from muster.kube.auth import kube_config
from muster.kube.blocking_client import BlockingClient
from muster.kube.request import Request, Response
from tests.cli.seeds import SEEDS
from tests.cli.submit_dry_run import Machine
from tests.local_server import LocalServer

MADE: tuple[Kind[Any], ...] = (TFJOBS, CONFIG_MAPS, SERVICES, DEPLOYMENTS)
TF = ("submit", "tf", "--name=j", "--image=i", "--workers=2")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """An API server that knows the jobs, with nobody acting on them."""
    with LocalServer(tmp_path_factory.mktemp("server")) as server:
        with BlockingClient(kube_config.load(server.kubeconfig)) as client:
            for body in crds.load_all():
                client.create(CRDS.read_as(dict), body)
        yield server


class Place(Machine):
    """The machine, with its command line pointed at a namespace of its own."""

    namespace = ""
    kubeconfig = Path()

    def arena(self, *words: str) -> tuple[int, list[str], str]:
        where = ("--kubeconfig", str(self.kubeconfig), "-n", self.namespace)
        code, out, err = self.run(*words, *where)
        return code, out.splitlines(), err.partition("\n")[2] if "cluster: " in err else err

    def client(self) -> BlockingClient:
        return BlockingClient(kube_config.load(self.kubeconfig))

    def found(self, kind: Kind[Any], name: str) -> Raw | None:
        with self.client() as client:
            try:
                return client.get(kind.read_as(dict), Key(self.namespace, name))
            except NotFound:
                return None

    def left(self) -> list[str]:
        """Everything of the kinds that submit makes."""
        with self.client() as client:
            return [
                f"{kind.kind}/{item['metadata']['name']}"
                for kind in MADE
                for item in client.list(kind.read_as(dict), self.namespace).items
                if item["metadata"]["name"] != "kube-root-ca.crt"
            ]


@pytest.fixture
def place(
    server: LocalServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    place = Place(tmp_path, capsys, monkeypatch)
    with BlockingClient(kube_config.load(server.kubeconfig)) as client:
        made = client.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "test-"}})
    place.namespace = made["metadata"]["name"]
    place.kubeconfig = server.kubeconfig
    return place


def test_the_seeds_tensorflow_command_prints_arenas_lines(place: Place) -> None:
    code, out, err = place.arena(*SEEDS["tensorflow"])

    assert code == 0
    assert out == [
        "configmap/tf-dist-git-tfjob created",
        "configmap/tf-dist-git-tfjob labeled",
        "tfjob.kubeflow.org/tf-dist-git created",
    ]
    get = f"arena get tf-dist-git --type tfjob -n {place.namespace}"
    assert err.splitlines()[-2:] == [
        "INFO[0000] The Job tf-dist-git has been submitted successfully",
        f"INFO[0000] You can run `{get}` to check the job status",
    ]


def test_the_seeds_mpi_command_prints_arenas_lines(place: Place) -> None:
    code, out, _ = place.arena(*SEEDS["mpi of 5"])

    assert code == 0
    assert out == [
        "configmap/mpi-dist-mpijob created",
        "configmap/mpi-dist-mpijob labeled",
        "service/mpi-dist-tensorboard created",
        "deployment.apps/mpi-dist-tensorboard created",
        "mpijob.kubeflow.org/mpi-dist created",
    ]


def test_the_job_owns_its_companions_and_the_record_holds_its_spec(place: Place) -> None:
    assert place.arena(*TF, "--tensorboard", "x")[0] == 0

    job = place.found(TFJOBS, "j")
    assert job is not None
    owner = {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j",
        "uid": job["metadata"]["uid"],
    }  # fmt: skip
    for kind, name in ((CONFIG_MAPS, "j-tfjob"), (SERVICES, "j-tensorboard"),
                       (DEPLOYMENTS, "j-tensorboard")):  # fmt: skip
        made = place.found(kind, name)
        assert made is not None
        assert made["metadata"]["ownerReferences"] == [owner]
    record = place.found(CONFIG_MAPS, "j-tfjob")
    assert record is not None
    assert record["metadata"]["labels"] == {"createdBy": "arena"}
    assert record["data"]["app"] == "tfjob.kubeflow.org/j"
    assert "tfReplicaSpecs" in record["data"]["values"]


def test_job_pods_and_tensorboard_are_labelled_with_the_user(place: Place) -> None:
    place.arena(*TF, "--ps=1", "--tensorboard", "x")

    job, service, deployment = (
        place.found(kind, name)
        for kind, name in (
            (TFJOBS, "j"), (SERVICES, "j-tensorboard"), (DEPLOYMENTS, "j-tensorboard"),
        )
    )  # fmt: skip
    assert job
    assert service
    assert deployment
    user = job["metadata"]["annotations"]["arena.kubeflow.org/username"]
    digest = hashlib.md5(user.encode()).hexdigest()
    templates = [row["template"] for row in job["spec"]["tfReplicaSpecs"].values()]
    for item in (job, service, deployment, deployment["spec"]["template"], *templates):
        assert item["metadata"]["labels"]["arena.kubeflow.org/uid"] == digest


def test_a_label_of_the_user_goes_before_arenas_own(place: Place) -> None:
    place.arena(*TF, "--label=arena.kubeflow.org/uid=mine", "x")

    job = place.found(TFJOBS, "j")
    assert job is not None
    assert job["metadata"]["labels"]["arena.kubeflow.org/uid"] == "mine"


def test_the_objects_are_built_once_before_the_cluster_is_contacted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    build, send = job_manifest.bundle, BlockingClient.send

    def bundle(*args: Any) -> Bundle:
        steps.append("build")
        return build(*args)

    def request(self: BlockingClient, ask: Request) -> Response:
        steps.append("send")
        return send(self, ask)

    monkeypatch.setattr(job_manifest, "bundle", bundle)
    monkeypatch.setattr(BlockingClient, "send", request)
    assert place.arena(*TF, "x")[0] == 0

    assert steps[0] == "build"
    assert steps.count("build") == 1


def test_a_job_of_the_same_name_is_left_alone(place: Place) -> None:
    place.arena(*TF, "first")
    code, out, err = place.arena(*TF, "--tensorboard", "second")

    assert code == 2
    assert out == []
    assert "the job j is already exist, please delete it first. use 'arena delete j'" in err
    assert sorted(place.left()) == ["ConfigMap/j-tfjob", "TFJob/j"]


def test_a_record_without_its_job_is_an_error_and_nothing_is_created(place: Place) -> None:
    with place.client() as client:
        client.create(CONFIG_MAPS, {"metadata": {"name": "j-tfjob"}}, namespace=place.namespace)
    code, _, err = place.arena(*TF, "x")

    assert code == 2
    assert "the job configmap j-tfjob is already exist, please delete it first" in err
    assert place.left() == ["ConfigMap/j-tfjob"]


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of everything that a client asks to be created for real."""
    asked: list[str] = []
    real = BlockingClient.send

    def send(self: BlockingClient, ask: Request) -> Response:
        real_one = "/namespaces/" in ask.path and ("dryRun", "All") not in ask.query
        if ask.method == "POST" and real_one:
            asked.append(ask.path)
        return real(self, ask)

    monkeypatch.setattr(BlockingClient, "send", send)
    return asked


@pytest.mark.parametrize("kind", [SERVICES, DEPLOYMENTS])
def test_nothing_is_created_unless_all_would_be_accepted(
    place: Place, kind: Kind[Any], created: list[str]
) -> None:
    """Somebody else's object has the name that TensorBoard's would have."""
    labels = {"a": "b"}
    spec: Raw = {"ports": [{"port": 1}]}
    if kind is DEPLOYMENTS:
        pod = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": labels}, "template": pod}
    body = {"metadata": {"name": "j-tensorboard"}, "spec": spec}
    with place.client() as client:
        client.create(kind.read_as(dict), body, namespace=place.namespace)
    created.clear()

    code, out, err = place.arena(*TF, "--tensorboard", "x")

    assert code == 1
    assert out == []
    assert "already exists" in err
    assert "Choose another --name, or, if it is not needed: kubectl delete " in err
    assert place.left() == [f"{kind.kind}/j-tensorboard"]
    assert created == []


def interrupt(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def impatient() -> None:
    """Ctrl-C, and again: the answer is not waited for."""
    interrupt(signal.SIGINT)()
    interrupt(signal.SIGINT)()


def timeout() -> None:
    raise Unreachable("no answer in time")


def broken() -> None:
    raise ServerError("it broke", status=500)


def disturb(monkeypatch: pytest.MonkeyPatch, write: int, before: Callable[[], None] | None,
            after: Callable[[], None] | None) -> list[str]:  # fmt: skip
    """Let something happen before or after the server acts on the n-th object to be created."""
    created: list[str] = []
    real = BlockingClient.send

    def send(self: BlockingClient, ask: Request) -> Response:
        if ask.method != "POST" or ("dryRun", "All") in ask.query or "/namespaces/" not in ask.path:
            return real(self, ask)
        created.append(ask.path.rpartition("/")[2])
        now = len(created) == write + 1
        if now and before:
            before()
        answer = real(self, ask)
        if now and after:
            after()
        return answer

    monkeypatch.setattr(BlockingClient, "send", send)
    return created


WHOLE = (*TF, "--tensorboard", "x")
WRITES = ("tfjobs", "configmaps", "services", "deployments")


@pytest.mark.parametrize("write", range(len(WRITES)), ids=WRITES)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (interrupt(signal.SIGINT), 130),
        (interrupt(signal.SIGTERM), 130),
        (impatient, 130),
        (timeout, 5),
        (broken, 1),
    ],
    ids=["ctrl-c", "sigterm", "ctrl-c twice", "timeout", "server error"],
)
def test_a_submission_that_fails_anywhere_leaves_nothing(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    write: int,
    when: str,
    trouble: Callable[[], None],
    expected: int,
) -> None:
    monkeypatch.setattr(transaction, "LOOK_SECONDS", 0.0)
    early, late = (trouble, None) if when == "before" else (None, trouble)
    created = disturb(monkeypatch, write, early, late)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    code, out, err = place.arena(*WHOLE)

    assert code == expected, err
    assert place.left() == []
    assert out == []
    assert created == list(WRITES[: write + 1])
    assert err.splitlines().count("interrupted: nothing was submitted") == (expected == 130)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("trouble", [interrupt(signal.SIGINT), impatient, timeout])
def test_an_object_of_another_user_is_not_rolled_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], None]
) -> None:
    """The name of the record is taken by another between our look and our write."""
    monkeypatch.setattr(transaction, "LOOK_SECONDS", 0.0)
    foreign: Raw = {"metadata": {"name": "j-tfjob"}, "data": {"precious": "yes"}}

    def taken() -> None:
        with place.client() as client:
            body = {"apiVersion": "v1", "kind": "ConfigMap", **foreign}
            path = f"/api/v1/namespaces/{place.namespace}/configmaps"
            client._transport.send(Request("POST", path, (), json.dumps(body).encode()))
        trouble()

    disturb(monkeypatch, 1, taken, None)
    code, _, _ = place.arena(*WHOLE)

    assert code != 0
    assert place.left() == ["ConfigMap/j-tfjob"]
    kept = place.found(CONFIG_MAPS, "j-tfjob")
    assert kept is not None
    assert kept["data"] == foreign["data"]


def test_a_second_interrupt_does_not_stop_the_roll_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = BlockingClient.delete

    def delete(self: BlockingClient, *args: Any, **kwargs: Any) -> None:
        impatient()
        real(self, *args, **kwargs)

    monkeypatch.setattr(BlockingClient, "delete", delete)
    disturb(monkeypatch, 3, None, interrupt(signal.SIGINT))

    assert place.arena(*WHOLE)[0] == 130
    assert place.left() == []


def test_an_interrupted_submission_reports_what_could_not_be_deleted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(*_: Any, **__: Any) -> None:
        raise Forbidden("you may not delete", status=403)

    monkeypatch.setattr(BlockingClient, "delete", delete)
    disturb(monkeypatch, 1, None, interrupt(signal.SIGINT))
    code, _, err = place.arena(*TF, "x")

    assert code == 130
    assert err.splitlines()[-1] == "interrupted: left behind: configmap/j-tfjob, tfjob/j"


def test_config_files_too_large_for_a_config_map_are_refused(place: Place) -> None:
    (place.home / "big").write_bytes(b"x" * ((1 << 20) + 1))

    code, _, err = place.arena(*TF, f"--config-file={place.home}/big:/etc/app/big", "x")

    assert code == 2
    assert "big are 1,048,577 bytes; a ConfigMap holds 1,048,576" in err
    assert place.left() == []


def test_config_files_become_config_maps_of_the_job(place: Place) -> None:
    (place.home / "a.conf").write_text("text")
    (place.home / "b.bin").write_bytes(b"\xff\x00")
    files = [f"--config-file={place.home}/{name}:/etc/app/{name}" for name in ("a.conf", "b.bin")]
    code, out, _ = place.arena(*TF, *files, "x")

    assert code == 0
    name = next(line for line in out if line.startswith("configmap/j-") and "tfjob" not in line)
    made = place.found(CONFIG_MAPS, name.split()[0].removeprefix("configmap/"))
    assert made is not None
    assert made["data"] == {"a.conf": "text"}
    assert made["binaryData"] == {"b.bin": "/wA="}
    assert made["metadata"]["ownerReferences"][0]["name"] == "j"


def test_a_priority_that_does_not_exist_is_refused(place: Place) -> None:
    code, _, err = place.arena(*TF, "--priority=nobody", "x")

    assert code == 2
    assert "the priority nobody doesn't exist. Please check with `kubectl get pc`" in err
    assert place.left() == []


@pytest.mark.parametrize("output", ["yaml", "json", "name"])
def test_the_created_objects_can_be_printed(place: Place, output: str) -> None:
    code, out, _ = place.arena(*TF, "-o", output, "x")

    assert code == 0
    if output == "name":
        assert out == ["configmap/j-tfjob", "tfjob.kubeflow.org/j"]
    else:
        assert any("uid" in line for line in out)


def test_a_job_is_submitted_from_a_short_file_with_changes(place: Place) -> None:
    file = place.home / "job.yaml"
    file.write_text(
        "kind: tf\nname: j\nimage: i\nworkers: 2\nenv: {A: 1, B: 'x, y'}\n"
        "command: python t.py --x 'a b'\n"
    )
    code, out, _ = place.arena("submit", "-f", str(file), "--set", "workers=4", "--set", "env.A=2")

    assert code == 0
    assert out[-1] == "tfjob.kubeflow.org/j created"
    job = place.found(TFJOBS, "j")
    assert job is not None
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 4
    main = worker["template"]["spec"]["containers"][0]
    assert {"name": "A", "value": "2"} in main["env"]
    assert main["command"] == ["sh", "-c", "python t.py --x 'a b'"]


def test_any_manifest_of_a_job_is_submitted_with_changes(place: Place) -> None:
    file = place.home / "job.yaml"
    built = place.run(*TF, "--dry-run", "-o", "yaml", "x")
    file.write_text(built[1])
    code, out, err = place.arena(
        "submit", "-f", str(file), "--set", "metadata.name=other",
        "--set", "spec.tfReplicaSpecs.Worker.replicas=3",
    )  # fmt: skip

    assert code == 0, err
    assert out == [
        "configmap/other-tfjob created",
        "configmap/other-tfjob labeled",
        "tfjob.kubeflow.org/other created",
    ]
    job = place.found(TFJOBS, "other")
    assert job is not None
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


def test_what_a_dry_run_prints_can_be_submitted(place: Place) -> None:
    file = place.home / "all.yaml"
    file.write_text(place.run(*TF, "--tensorboard", "--dry-run", "x")[1])
    code, out, err = place.arena("submit", "-f", str(file), "--set", "spec.suspend=true")

    assert code == 0, err
    assert out == [
        "configmap/j-tfjob created",
        "configmap/j-tfjob labeled",
        "service/j-tensorboard created",
        "deployment.apps/j-tensorboard created",
        "tfjob.kubeflow.org/j created",
    ]


def test_a_dry_run_names_all_objects(place: Place) -> None:
    _, foreseen, _ = place.arena(*TF, "--tensorboard", "--dry-run", "-o", "name", "x")
    _, made, _ = place.arena(*TF, "--tensorboard", "-o", "name", "x")

    assert foreseen == made
    assert foreseen[0] == "configmap/j-tfjob"


@pytest.mark.parametrize("word", ["", "=", "=v"])
def test_an_empty_word_is_no_old_spelling(place: Place, word: str) -> None:
    _, _, err = place.arena(*TF, "echo", word)

    assert "deprecated" not in err


FILES = {
    "list of two": "kind: List\napiVersion: v1\nitems: []\n",
    "list with a pod": "kind: List\napiVersion: v1\nitems: "
    "[{apiVersion: v1, kind: Pod, metadata: {name: p}}]\n",
    "two": "kind: tf\n---\nkind: tf\n",
    "empty": "",
    "list": "- a\n",
    "no kind": "name: j\ncommand: x\n",
    "odd kind": "kind: tff\nname: j\ncommand: x\n",
    "no name": "kind: tf\ncommand: x\nimage: i\n",
    "no command": "kind: tf\nname: j\nimage: i\n",
    "typo": "kind: tf\nname: j\nimage: i\ncommand: x\nwokers: 2\n",
    "text for a number": "kind: tf\nname: j\nimage: i\ncommand: x\nworkers: two\n",
    "text for a switch": "kind: tf\nname: j\nimage: i\ncommand: x\ngang: maybe\n",
    "nested": "kind: tf\nname: j\ncommand: x\nimage: {a: b}\n",
    "octal": "kind: tf\nname: j\nimage: i\ncommand: x\nworkers: 010\n",
    "underscores": "kind: tf\nname: j\nimage: i\ncommand: x\nworkers: 1_000\n",
    "nothing": "kind: tf\nname: j\nimage: i\ncommand: x\nenv: {A: }\n",
    "list in a mapping": "kind: tf\nname: j\nimage: i\ncommand: x\nenv: {A: [b]}\n",
    "no job": "apiVersion: v1\nkind: Pod\nmetadata: {name: j}\n",
    "no replicas": "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: j}\nspec: {}\n",
    "upper case": "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: J}\nspec: {}\n",
    "yaml": "a: [",
}
GOOD = "kind: tf\nname: j\nimage: i\nenv: {A: b}\ncommand: [x]\nworkers: 2\n"
WRONG = {
    "int": ("x", "1.5", "", "-1"),
    "quantity": ("lots", "-1", "1Zi"),
    "pairs": ("x", "=v", ""),
    "labels": ("x", "a b=c", "a=b c", f"{'k' * 64}=v"),
    "duration": ("soon", "5", "1h-2m"),
    "path": ("relative", "/", "a:b", ":/x"),
    "choice": ("sometimes", "0"),
    "object": ("Not_A_Name", "a/b"),
}
MEANS = {
    "int": ("gpus", "workers", "retry", "ps", "ps-gpus", "sync-depth"),
    "quantity": (
        "worker-cpu", "worker-memory", "ps-cpu", "ps-memory-limit", "chief-cpu", "evaluator-memory",
        "share-memory",
    ),
    "pairs": ("env", "device"),
    "labels": ("label", "selector", "worker-selector", "ps-selector"),
    "duration": ("running-timeout", "ttl-after-finished", "starting-timeout"),
    "path": ("data", "data-dir", "config-file"),
    "choice": (
        "clean-task-policy", "success-policy", "image-pull-policy", "sync-mode", "toleration",
        "env-from", "worker-affinity-policy", "ps-affinity-constraint", "role-sequence",
        "sync-submodules",
    ),
    "object": ("priority", "image-pull-secret", "sync-secret"),
}  # fmt: skip


def malformed() -> Iterator[tuple[str, ...]]:
    """Command lines that nobody could have meant."""
    base = ("--image=i", "--workers=2", "--ps=1", "--chief", "--evaluator")
    git = ("--sync-mode=git", "--sync-source=https://x/p.git")
    for meaning, flags in MEANS.items():
        for flag in flags:
            more = git if flag.startswith("sync-") and flag != "sync-mode" else ()
            for value in WRONG[meaning]:
                yield ("tf", "--name=j", *base, *more, f"--{flag}={value}", "x")
    for row in flags_of(TensorFlow):
        yield ("tf", "--name=j", *base, f"{row.spelling[:-1]}q=1", "x")
    for name in ("", "J", "a_b", "-a", "a" * 50, "1a", "a.b", "ä"):
        yield ("tf", f"--name={name}", *base, "x")
    for type_ in ("tf", "mpi", "pytorch", "jax"):
        named = (type_, "--name=j", "--image=i")
        yield (type_, "--image=i", "x")
        yield (type_, "--name=j", "x")
        yield named
        yield (*named, "")
        yield (*named, "--gang", "false", "python", "t.py")
        yield (*named, "--gang=perhaps", "x")
        yield (*named, "--sync-branch=b", "x")
        yield (*named, "--sync-mode=git", "x")
        yield (*named, "--dry-run=often", "x")
        yield (*named, "--dry-run", "server", "x")
        yield (*named, "python", "t.py", "--dry-run", "client")
        yield (*named, "--model-name=m", "x")
        yield (*named, "--data=c:/dev/shm", "x")
    for other in ("tff", "horovodjob", "etjob", "spark"):
        yield (other, "--name=j", "--image=i", "x")
    for change in ("workers", "=1", "wokers=2", "env.A.B.C=1", "command[3]=x", "workers=1e3",
                   "command=[a", "command='a' b", "command=[a] # b", "gang=perhaps"):  # fmt: skip
        yield ("-f", "good.yaml", "--set", change)
    yield from (("-f", f"{name}.yaml") for name in (*FILES, "missing"))


def test_malformed_command_lines_print_a_sentence_and_create_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.home)
    for name, text in FILES.items():
        Path(f"{name}.yaml").write_text(text)
    Path("good.yaml").write_text(GOOD)
    lines = list(malformed())
    assert len(lines) >= 200

    for words in lines:
        code, out, err = place.arena("submit", *words)
        assert code in (1, 2), (words, code, err)
        assert out == [], words
        assert "error: " in err, words
        assert "bug in Muster" not in err, (words, err)
    assert place.left() == []
    assert place.arena("submit", "-f", "good.yaml")[0] == 0


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("--wokers=2", "--workers"), ("--workerimage=a", "--worker-image"), ("--sync=git", "--sync-")],
)
def test_an_unknown_flag_gets_the_nearest_one(place: Place, wrong: str, near: str) -> None:
    code, _, err = place.arena(*TF, wrong, "x")

    assert code == 2
    assert near in err.partition(wrong.partition("=")[0])[2]


def test_the_value_of_a_dry_run_is_never_a_word_of_the_command(place: Place) -> None:
    for words in (
        ("--dry-run", "server", "python", "t.py"),
        ("python", "t.py", "--dry-run", "server"),
    ):
        code, out, err = place.arena(*TF, *words)
        assert (code, out) == (2, [])
        assert "--dry-run server: its value follows a '=': --dry-run=server" in err
    assert place.arena(*TF, "--dry-run", "--", "server")[0] == 0
    assert place.arena(*TF, "--dry-run", "python server")[0] == 0


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_the_flags_about_the_cluster_may_stand_anywhere(place: Place, at: int) -> None:
    where = ["--kubeconfig", str(place.kubeconfig), "-n", place.namespace]
    words = ["submit", "jax", "--name=any", "--image=i", "x"]
    code, out, err = place.run(*words[:at], *where, *words[at:])

    assert code == 0, err
    assert "jaxjob.kubeflow.org/any created" in out
    assert place.found(JAXJOBS, "any") is not None
