"""Verbs that change jobs: every name is tried, the exit code is true, nothing is left behind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.api.kinds import CONFIG_MAPS, MPIJOBS, NAMESPACES, PODS, SERVICES, TFJOBS, Kind
from muster.api.meta import Key
from muster.cli import main
from muster.cli.verbs import scale, wait
from muster.cli.verbs.data import CLAIMS
from muster.client import target
from muster.client.jobs.waiting import JobWatch
from muster.client.server_tables import KINDS_BY_WORD
from muster.client.submit.transaction import SUBMISSION_ANNOTATION
from muster.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Gone,
    JobFailed,
    MusterError,
    NotFound,
    Unreachable,
    UsageError,
)
from muster.jobs.summary import JobSummary, summarize
from muster.kube.auth import kube_config
from muster.kube.blocking_client import BlockingClient
from muster.kube.request import PatchType, Request, Response
from tests.cli.fake_cluster import FakeCluster, pod
from tests.cli.verbs.test_apply import LocalServer
from tests.controlplane.control_plane import ControlPlane

Raw = dict[str, Any]
SERVICE_ACCOUNTS = KINDS_BY_WORD["serviceaccounts"]
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}


@dataclass
class Place:
    """A namespace of its own on a server, and the command line pointed there."""

    kubeconfig: Path
    namespace: str
    client: BlockingClient
    capture: pytest.CaptureFixture[str]

    def arena(self, *words: str) -> tuple[int, str, str]:
        flags = ["--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        code = main.run("arena", [*flags, *words])
        out = self.capture.readouterr()
        return code, out.out, out.err

    def job(self, name: str, **status: Any) -> Raw:
        roles = {"Worker": {"replicas": 2, "template": TEMPLATE}}
        body = {"metadata": {"name": name}, "spec": {"tfReplicaSpecs": roles}}
        made = self.client.create(TFJOBS, body, namespace=self.namespace)
        if status:
            self.client.patch(
                TFJOBS, Key(self.namespace, name), {"status": status}, subresource="status"
            )
        return made

    def board(self, job: str) -> None:
        """A pod of its TensorBoard that is ready."""
        labels = {"release": job, "role": "tensorboard"}
        body = {"metadata": {"name": f"{job}-tensorboard-0", "labels": labels}, **TEMPLATE}
        pods = PODS.read_as(dict)
        self.client.create(pods, body, namespace=self.namespace)
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        key = Key(self.namespace, f"{job}-tensorboard-0")
        self.client.patch(pods, key, {"status": ready}, subresource="status")

    def spec(self, name: str) -> Raw:
        found: Raw = self.client.get(TFJOBS, Key(self.namespace, name))["spec"]
        return found

    def names(self) -> list[str]:
        return sorted(j["metadata"]["name"] for j in self.client.list(TFJOBS, self.namespace).items)


def ended(type_: str, when: str = "2026-01-01T00:00:00Z") -> Raw:
    row = {"type": type_, "status": "True", "lastTransitionTime": when}
    return {"conditions": [row], "completionTime": when}


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kube)])
def place(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    """On the local API server and on a real one: the same words."""
    name = "job_server" if request.param == "local" else "job_plane"
    server: LocalServer | ControlPlane = request.getfixturevalue(name)
    with BlockingClient(kube_config.load(server.kubeconfig)) as client:
        made = client.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "test-"}})
        account = {"metadata": {"name": "default"}}
        with suppress(AlreadyExists):  # a real server takes no pod without it
            accounts = SERVICE_ACCOUNTS
            client.create(accounts, account, namespace=made["metadata"]["name"])
        yield Place(server.kubeconfig, made["metadata"]["name"], client, capsys)


# delete


def test_every_name_is_tried_and_a_missing_one_shows_in_the_exit_code(place: Place) -> None:
    place.job("a")
    place.job("b")

    code, _, err = place.arena("delete", "a", "nope", "b")

    assert code == 3
    assert place.names() == []
    assert "The training job a has been deleted successfully" in err
    assert "The training job 'nope' does not exist,skip to delete it" in err
    assert "The training job b has been deleted successfully" in err
    assert err.splitlines()[-1] == "error: 1 of 3 jobs were not there"


def test_deleting_what_is_there_is_a_success(place: Place) -> None:
    place.job("a")

    assert place.arena("delete", "tfjob/a")[0] == 0
    assert place.names() == []


def test_a_record_without_its_job_is_deleted_too(place: Place) -> None:
    record = {"metadata": {"name": "half-tfjob", "labels": {"createdBy": "arena"}}}
    place.client.create(CONFIG_MAPS, record, namespace=place.namespace)
    foreign = {"metadata": {"name": "mine-tfjob"}}
    place.client.create(CONFIG_MAPS, foreign, namespace=place.namespace)

    assert place.arena("delete", "half")[0] == 0
    assert place.arena("delete", "mine")[0] == 3
    with pytest.raises(NotFound):
        place.client.get(CONFIG_MAPS, Key(place.namespace, "half-tfjob"))
    place.client.get(CONFIG_MAPS, Key(place.namespace, "mine-tfjob"))


def test_one_pod_can_be_deleted_and_is_never_taken_for_a_job(place: Place) -> None:
    body = {"metadata": {"name": "p"}, **TEMPLATE}
    place.client.create(PODS.read_as(dict), body, namespace=place.namespace)

    assert place.arena("delete", "p")[0] == 3
    assert place.arena("delete", "pod/p")[0] == 0


# suspend, resume, scale


def test_a_suspended_job_is_resumed(place: Place) -> None:
    place.job("a")

    assert place.arena("suspend", "a")[1] == "tfjob.kubeflow.org/a suspended\n"
    assert place.spec("a")["runPolicy"]["suspend"] is True
    assert place.arena("suspend", "a")[1] == "tfjob.kubeflow.org/a already suspended\n"
    assert place.arena("resume", "a")[1] == "tfjob.kubeflow.org/a resumed\n"
    assert place.spec("a")["runPolicy"]["suspend"] is False


def test_a_finished_job_can_be_neither_suspended_nor_scaled(place: Place) -> None:
    place.job("done", **ended("Succeeded"))

    code, _, err = place.arena("suspend", "done")
    assert code == 1
    assert "tfjob.kubeflow.org/done has succeeded already: there is nothing to stop" in err
    code, _, err = place.arena("resume", "done")
    assert code == 1
    assert "tfjob.kubeflow.org/done has succeeded already: there is nothing to resume" in err
    assert place.arena("scale", "done", "--workers", "3")[0] == 1


def test_other_jobs_are_suspended_although_one_is_missing(place: Place) -> None:
    place.job("a")
    place.job("b")

    assert place.arena("suspend", "a", "nope", "b")[0] == 3
    assert [place.spec(name)["runPolicy"]["suspend"] for name in "ab"] == [True, True]


def test_scaling_changes_the_number_of_workers(place: Place) -> None:
    place.job("a")

    assert place.arena("scale", "a", "--workers", "5")[:2] == (0, "tfjob.kubeflow.org/a scaled\n")
    assert place.spec("a")["tfReplicaSpecs"]["Worker"]["replicas"] == 5


@pytest.mark.parametrize(
    ("spec", "wanted", "operations"),
    [
        ({"tfReplicaSpecs": {"WORKER": {}}}, {"worker": 3}, [("/spec/tfReplicaSpecs/WORKER", 3)]),
        (
            {"pytorchReplicaSpecs": {"Master": {}, "Worker": {}}},
            {"worker": 3},
            [("/spec/pytorchReplicaSpecs/Worker", 2)],
        ),
        (
            {"replicaSpecs": [{"tfReplicaType": "PS"}, {"tfReplicaType": "Worker"}]},
            {"worker": 3, "ps": 2},
            [("/spec/replicaSpecs/0", 2), ("/spec/replicaSpecs/1", 3)],
        ),
        ({"replicas": 2, "template": {}}, {"worker": 3}, [("/spec", 3)]),
    ],
)
def test_every_shape_of_a_job_can_be_scaled(
    spec: Raw, wanted: dict[str, int], operations: list[tuple[str, int]]
) -> None:
    assert scale.operations({"spec": spec}, wanted) == [
        {"op": "add", "path": f"{path}/replicas", "value": count} for path, count in operations
    ]


def test_a_scaled_gang_still_starts_whole_or_not_at_all(place: Place) -> None:
    flags = ("--name=g", "--image=i", "--gang", "--gpus=2", "--ps=1", "--workers=2")
    assert place.arena("submit", "tf", *flags, "--env=workers_at_first=2", "x")[0] == 0

    assert place.arena("scale", "g", "--workers", "5")[0] == 0

    job = place.client.get(TFJOBS, Key(place.namespace, "g"))
    place.client.delete(TFJOBS, Key(place.namespace, "g"))
    place.client.delete(CONFIG_MAPS, Key(place.namespace, "g-tfjob"))
    assert place.arena("submit", "tf", *flags[:-1], "--workers=5", "--env=workers_at_first=2",
                       "x")[0] == 0  # fmt: skip
    anew = place.client.get(TFJOBS, Key(place.namespace, "g"))
    assert job["spec"] == anew["spec"]
    for made in (job, anew):
        del made["metadata"]["annotations"][SUBMISSION_ANNOTATION]
    assert job["metadata"]["annotations"] == anew["metadata"]["annotations"]
    assert anew["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 6


def test_what_a_person_chose_for_the_gang_stays_when_it_is_scaled(place: Place) -> None:
    flags = ("--name=g", "--image=i", "--gang", "--workers=4", "--env=workers=many")
    assert place.arena("submit", "tf", *flags, "x")[0] == 0
    least = [{"op": "replace", "path": "/spec/runPolicy/schedulingPolicy/minAvailable", "value": 3}]
    place.client.patch(TFJOBS, Key(place.namespace, "g"), least, patch_type=PatchType.JSON)

    assert place.arena("scale", "g", "--workers", "8")[0] == 0

    assert place.spec("g")["runPolicy"]["schedulingPolicy"]["minAvailable"] == 3
    main = place.spec("g")["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert {"name": "workers", "value": "many"} in main["env"]


def test_who_scales_a_running_job_is_told_that_its_instances_are_left_alone(place: Place) -> None:
    assert place.arena("submit", "tf", "--name=r", "--image=i", "--workers=2", "x")[0] == 0
    told = "instances that run keep the former numbers"
    assert told not in place.arena("scale", "r", "--workers", "3")[2]
    running = {"status": {"conditions": [{"type": "Running", "status": "True"}]}}
    place.client.patch(TFJOBS, Key(place.namespace, "r"), running, subresource="status")

    code, _, err = place.arena("scale", "r", "--workers", "4")

    assert code == 0
    assert told in err


@pytest.mark.parametrize("count", ["0", "-1", "99999999999"])
def test_a_job_cannot_be_scaled_to_what_submit_would_refuse(place: Place, count: str) -> None:
    place.job("a")

    code, out, err = place.arena("scale", "a", "--workers", count)

    assert (code, out) == (2, "")
    assert "--workers" in err
    assert place.spec("a")["tfReplicaSpecs"]["Worker"]["replicas"] == 2


def test_a_job_that_is_not_there_is_told_before_others_are_waited_for(place: Place) -> None:
    place.job("goes-on")

    code, out, err = place.arena("wait", "goes-on", "nope", "--timeout", "1h")

    assert (code, out) == (3, "")
    assert "nope" in err


def test_a_role_that_is_not_there_cannot_be_scaled(place: Place) -> None:
    place.job("a")

    code, _, err = place.arena("scale", "a", "--ps", "2")

    assert code == 2
    assert "error: the job has no ps replicas; its roles: worker" in err
    assert place.arena("scale", "a")[0] == 2
    with pytest.raises(UsageError):
        scale.operations({"spec": {"xReplicaSpecs": {"Master": {}, "Worker": {}}}}, {"worker": 0})


# prune


def test_only_jobs_that_ended_long_enough_ago_are_pruned(place: Place) -> None:
    place.job("old", **ended("Succeeded"))
    place.job("bad", **ended("Failed"))
    place.job("waits")
    place.job("fresh", **ended("Succeeded", "2999-01-01T00:00:00Z"))

    listed = place.arena("prune", "--since", "1h", "--dry-run")[1]
    assert sorted(line.split()[3] for line in listed.splitlines()) == ["bad", "old"]
    assert len(place.names()) == 4

    assert place.arena("prune", "--since", "1h", "--yes")[0] == 0
    assert place.names() == ["fresh", "waits"]
    assert place.arena("prune", "--since", "1h", "--yes")[1] == "No job need to be deleted\n"


def test_a_foreign_cluster_is_not_pruned_unasked(place: Place) -> None:
    place.job("old", **ended("Succeeded"))

    code, _, err = place.arena("prune", "--since", "1h")

    assert code == 2
    assert "--yes deletes them" in err
    assert place.names() == ["old"]


def test_prune_wants_to_know_since_when(place: Place) -> None:
    assert place.arena("prune")[0] == 2
    assert place.arena("prune", "--since", "yesterday")[0] == 2


# wait


def looks(*statuses: str | Exception) -> Callable[[], JobSummary]:
    found = iter(statuses)

    def look() -> JobSummary:
        status = next(found)
        if isinstance(status, Exception):
            raise status
        rows = [{"type": status, "status": "True", "message": "m"}]
        raw = {
            "kind": "TFJob",
            "metadata": {"name": "j"},
            "spec": {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
            "status": {"conditions": rows},
        }
        return summarize(raw, [])

    return look


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "LOOK_AGAIN", 0)


@pytest.mark.usefixtures("no_pauses")
def test_waiting_ends_with_success_and_survives_a_cluster_that_is_away() -> None:
    look = looks("Created", Unreachable("x"), "Running", "Succeeded")
    shown: list[str] = []

    ended = wait.reached(
        look, ("SUCCEEDED",), float("inf"), show=lambda job: shown.append(job.status)
    )

    assert ended.status == "SUCCEEDED"
    assert list(dict.fromkeys(shown)) == ["PENDING", "RUNNING"]


@pytest.mark.usefixtures("no_pauses")
def test_a_job_that_fails_while_it_is_waited_for_is_told_as_such() -> None:
    with pytest.raises(JobFailed, match="the job j has failed: m"):
        wait.reached(looks("Running", "Failed"), ("SUCCEEDED",), float("inf"))


@pytest.mark.usefixtures("no_pauses")
def test_a_job_that_is_deleted_while_it_is_waited_for_is_told_as_such() -> None:
    with pytest.raises(NotFound, match="the job j was deleted meanwhile"):
        wait.reached(looks("Running", NotFound("no")), ("SUCCEEDED",), float("inf"))


def test_patience_ends() -> None:
    with pytest.raises(MusterError, match="the job j is still pending"):
        wait.reached(looks("Created"), ("SUCCEEDED",), 0)


def test_the_exit_code_of_wait_is_the_jobs(place: Place) -> None:
    place.job("good", **ended("Succeeded"))
    place.job("bad", **ended("Failed"))

    assert place.arena("wait", "good")[:2] == (0, "tfjob/good succeeded\n")
    assert place.arena("wait", "bad", "good")[:2] == (10, "tfjob/good succeeded\n")
    assert place.arena("wait", "good", "--for", "running")[0] == 0
    assert place.arena("wait", "nope")[0] == 3
    assert place.arena("wait", "nope", "--for", "deleted")[:2] == (0, "nope deleted\n")


def finish(place: Place, name: str, type_: str) -> None:
    """It ends, and its time to live is over at once."""
    key = Key(place.namespace, name)
    place.client.patch(TFJOBS, key, {"status": ended(type_)}, subresource="status")
    place.client.delete(TFJOBS, key)


def vigil(place: Place, name: str) -> JobWatch:
    return JobWatch(place.client, TFJOBS, place.client.get(TFJOBS, Key(place.namespace, name)))


@pytest.mark.parametrize("type_", ["Failed", "Succeeded"])
def test_an_end_between_two_looks_is_seen_although_the_job_is_gone(
    place: Place, type_: str
) -> None:
    place.job("a")
    watching = vigil(place, "a")
    assert watching.look().status == "PENDING"
    finish(place, "a", type_)
    place.job("a")  # another one

    watching.wait(1)

    assert watching.look().status == type_.upper()
    watching.wait(0)
    assert watching.look().status == type_.upper()


def test_a_job_that_was_deleted_before_its_end_is_gone(place: Place) -> None:
    place.job("a")
    watching = vigil(place, "a")
    place.client.delete(TFJOBS, Key(place.namespace, "a"))
    place.job("a", **ended("Succeeded"))

    watching.wait(1)

    with pytest.raises(NotFound):
        watching.look()


@pytest.mark.parametrize(
    "refusal", [Forbidden("you may not watch", status=403), Gone("too old", status=410)]
)
def test_a_job_that_cannot_be_watched_is_looked_up(
    place: Place, monkeypatch: pytest.MonkeyPatch, refusal: ApiError
) -> None:
    real = BlockingClient.send

    def send(self: BlockingClient, ask: Request) -> Response:
        if ("watch", "true") in ask.query:
            raise refusal
        return real(self, ask)

    monkeypatch.setattr(BlockingClient, "send", send)
    place.job("a")
    watching = vigil(place, "a")
    key = Key(place.namespace, "a")
    place.client.patch(TFJOBS, key, {"status": ended("Failed")}, subresource="status")
    watching.wait(0)
    assert watching.look().status == "FAILED"
    place.client.delete(TFJOBS, key)
    watching.wait(0)
    assert watching.look().status == "FAILED"


def test_a_cluster_that_is_away_loses_no_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.job("a")
    watching = vigil(place, "a")
    with monkeypatch.context() as away:
        away.setattr(BlockingClient, "send", _away)
        watching.wait(0)
        with pytest.raises(Unreachable):
            watching.look()
    finish(place, "a", "Failed")

    watching.wait(1)

    assert watching.look().status == "FAILED"


def _away(*_: object) -> Response:
    raise Unreachable("no answer")


@pytest.mark.parametrize(
    ("kind", "role", "phase", "policy", "kept"),
    [
        (TFJOBS, "worker", "Failed", {"cleanPodPolicy": "Running"}, True),
        (TFJOBS, "worker", "Failed", {"cleanPodPolicy": "None"}, True),
        (TFJOBS, "worker", "Failed", {"cleanPodPolicy": "All"}, False),
        (TFJOBS, "worker", "Running", {"cleanPodPolicy": "Running"}, False),
        (TFJOBS, "worker", "Failed", {"ttlSecondsAfterFinished": 1}, False),
        (TFJOBS, "worker", "Failed", {"ttlSecondsAfterFinished": 3600}, True),
        (MPIJOBS, "launcher", "Failed", {"cleanPodPolicy": "All"}, True),
        (MPIJOBS, "worker", "Failed", {"cleanPodPolicy": "All"}, False),
    ],
)
def test_a_log_is_left_of_what_the_end_of_a_job_does_not_take_away(
    kind: Kind[Raw], role: str, phase: str, policy: Raw, kept: bool
) -> None:
    roles = ("launcher", "worker") if kind is MPIJOBS else ("worker",)
    specs = {name: {"template": TEMPLATE} for name in roles}
    raw = {
        "kind": kind.kind,
        "metadata": {"name": "j", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {f"{kind.kind[:-3].lower()}ReplicaSpecs": specs, "runPolicy": policy},
    }
    client = FakeCluster({"pods": [pod(raw, role, 0, phase)]})
    watching = JobWatch(client, kind, raw)

    assert watching.keeps_logs(watching.look()) is kept


@pytest.mark.parametrize(("type_", "expected"), [("Failed", 10), ("Succeeded", 0)])
def test_the_exit_code_is_the_jobs_however_short_its_time_to_live(
    place: Place, monkeypatch: pytest.MonkeyPatch, type_: str, expected: int
) -> None:
    real = JobWatch.wait
    ends = ["s", "a", "b"]

    def wait(self: JobWatch, seconds: float) -> None:
        while ends and ends[0] in place.names():
            finish(place, ends.pop(0), type_)
        real(self, seconds)

    monkeypatch.setattr(JobWatch, "wait", wait)
    assert place.arena("submit", "tf", "--name=s", "--image=i", "--wait", "x")[0] == expected
    place.job("a")
    place.job("b")
    assert place.arena("wait", "a", "b")[0] == expected


# lists of other things


def test_objects_of_any_kind_are_listed_in_the_servers_columns(place: Place) -> None:
    body = {"metadata": {"name": "p"}, **TEMPLATE}
    place.client.create(PODS.read_as(dict), body, namespace=place.namespace)

    lines = place.arena("get", "pods")[1].splitlines()

    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["p", "0/1", "Pending", "0"]
    assert place.arena("get", "po", "-o", "name")[1] == "pod/p\n"
    assert place.arena("get", "pods", "-A")[1].split()[0] == "NAMESPACE"
    assert "NODE" in place.arena("get", "pods", "-o", "wide")[1].splitlines()[0].split()
    assert place.arena("get", "pods", "-l", "a=b", "-o", "name")[1].strip() == ""


@pytest.mark.parametrize("word", ["nodes", "events", "tfjobs", "svc", "pytorchjobs", "pvc", "jobs"])
def test_a_kind_without_objects_is_a_header_and_no_error(place: Place, word: str) -> None:
    code, out, _ = place.arena("get", word)

    assert code == 0
    assert len(out.splitlines()) == 1


def test_jobs_made_with_kubectl_are_shown_like_any_other(place: Place) -> None:
    place.job("bare")

    assert place.arena("get", "jobs")[1].splitlines()[1].split()[:3] == ["bare", "PENDING", "TFJOB"]
    assert place.arena("get", "tfjobs", "bare")[0] == 0


def test_claims_that_are_bound_are_data(place: Place) -> None:
    body = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models", "annotations": {"owner": "me", "description": "all"}},
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    place.client.create(CLAIMS.read_as(dict), body, namespace=place.namespace)
    assert len(place.arena("data", "list")[1].splitlines()) == 1
    bound = {"status": {"phase": "Bound"}}
    key = Key(place.namespace, "models")
    place.client.patch(CLAIMS.read_as(dict), key, bound, subresource="status")

    _, out, _ = place.arena("data", "list")
    assert out.splitlines()[1].split()[:4] == ["models", "ReadWriteMany", "all", "me"]
    assert place.arena("data", "ls", "-o", "name")[1] == "models\n"


def test_the_top_tables_need_no_metrics_server(place: Place) -> None:
    place.job("a")

    assert place.arena("top", "node")[0] == 0
    code, out, _ = place.arena("top", "job")
    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["a", "PENDING", "TFJOB"]
    assert out.splitlines()[1].split()[-2:] == ["N/A", "N/A"]


# the rest


def test_whoami_is_one_line_of_json(place: Place) -> None:
    _, out, _ = place.arena("whoami")

    told = json.loads(out)
    assert len(out.splitlines()) == 1
    assert list(told) == ["Name", "Id", "IsAdminUser"]
    assert told["IsAdminUser"] is True
    assert told["Id"] == hashlib.md5(told["Name"].encode()).hexdigest()


def test_debugging_shows_every_request(place: Place) -> None:
    _, _, err = place.arena("--loglevel", "debug", "list")

    assert f"DEBU GET /apis/kubeflow.org/v1/namespaces/{place.namespace}/tfjobs" in err


def test_quiet_levels_leave_out_what_is_only_informative(place: Place) -> None:
    place.job("a")

    assert place.arena("--loglevel=error", "delete", "a")[2] == ""
    assert place.arena("delete", "a", "--loglevel=loud")[0] == 2


def test_tensorboard_opens_and_without_one_it_says_how_to_get_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    place.job("a")
    code, _, err = place.arena("open", "a")
    assert code == 3
    assert "the job a has no TensorBoard" in err

    spec = {
        "type": "NodePort",
        "ports": [{"port": 6006, "nodePort": 30555}],
        "selector": {"a": "b"},
    }
    service = {"metadata": {"name": "a-tensorboard"}, "spec": spec}
    place.client.create(SERVICES.read_as(dict), service, namespace=place.namespace)
    local = target.Cluster(kube_config.load(place.kubeconfig), "local", "a test", local=True)
    monkeypatch.setattr(target, "find_cluster", lambda _: local)

    url = "http://127.0.0.1:30555"
    code, out, err = place.arena("open", "a")
    assert (code, out, opened) == (1, f"{url}\n", [])
    assert "the TensorBoard of a is not running: it has no pod yet" in err

    place.board("a")
    assert place.arena("open", "a")[:2] == (0, f"{url}\n")
    assert opened == [url]
    assert place.arena("open", "a", "--print")[1] == f"{url}\n"
    assert opened == [url]


def test_there_is_no_dashboard_and_it_says_so(place: Place) -> None:
    place.job("a")

    for words in (["open"], ["logviewer", "a"]):
        code, out, err = place.arena(*words)
        assert (code, out) == (3, "")
        assert "error: no LOGVIEWER Installed: this version has no dashboard\n" in err
