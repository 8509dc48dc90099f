"""A submission creates all objects or none: taken names, errors and signals at every write."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import Request, Response
from kubekit.objects.kinds import CONFIG_MAPS, DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Forbidden, ServerError, Unreachable
from muster.client.submit import transaction
from muster.contract.job_kinds import TFJOBS
from tests.muster.cli.submitter import TF, Submitter


def test_a_job_of_the_same_name_is_left_alone(submitter: Submitter) -> None:
    submitter.arena(*TF, "first")
    code, out, err = submitter.arena(*TF, "--tensorboard", "second")

    assert code == 1
    assert out == []
    assert "error: a job named j exists already: tfjob/j\n" in err
    assert "arena delete tfjob/j" in err
    assert sorted(submitter.objects()) == ["ConfigMap/j-tfjob", "TFJob/j"]


def test_a_name_that_a_job_of_another_kind_has_is_refused_at_once(submitter: Submitter) -> None:
    submitter.arena(*TF, "first")
    code, out, err = submitter.arena("submit", "mpi", "--name=j", "--image=i", "second")

    assert (code, out) == (1, [])
    assert "error: a job named j exists already: tfjob/j\n" in err
    assert "Choose another --name, or delete it first: arena delete tfjob/j" in err
    assert sorted(submitter.objects()) == ["ConfigMap/j-tfjob", "TFJob/j"]


def test_a_record_without_its_job_is_an_error_and_nothing_is_created(submitter: Submitter) -> None:
    with submitter.client() as client:
        client.create(CONFIG_MAPS, {"metadata": {"name": "j-tfjob"}}, namespace=submitter.namespace)
    code, _, err = submitter.arena(*TF, "x")

    assert code == 1
    assert "configmap/j-tfjob, the record of a former job j, exists already" in err
    assert "`arena delete j` deletes it" in err
    assert submitter.objects() == ["ConfigMap/j-tfjob"]


def test_objects_that_a_deleted_job_left_to_the_garbage_collector_are_no_obstacle(
    submitter: Submitter,
) -> None:
    """This server has no garbage collector: what the deleted job owned stays for ever."""
    submitter.arena(*TF, "--tensorboard", "first")
    submitter.arena("delete", "j")
    remains = ["ConfigMap/j-tfjob", "Deployment/j-tensorboard", "Service/j-tensorboard"]
    assert sorted(submitter.objects()) == remains

    code, _, _ = submitter.arena(*TF, "--tensorboard", "second")

    assert code == 0
    assert sorted(submitter.objects()) == [*remains, "TFJob/j"]
    job, record = submitter.get(TFJOBS, "j"), submitter.get(CONFIG_MAPS, "j-tfjob")
    assert record["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_an_object_that_a_deleted_job_shared_with_another_owner_is_kept(
    submitter: Submitter,
) -> None:
    owners = [
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "former"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "living"},
    ]
    with submitter.client() as client:
        body = {"metadata": {"name": "j-tfjob", "ownerReferences": owners}}
        client.create(CONFIG_MAPS, body, namespace=submitter.namespace)

    code, _, _ = submitter.arena(*TF, "x")

    assert code == 1
    assert submitter.objects() == ["ConfigMap/j-tfjob"]


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The resource of every object that a client creates, but for dry runs."""
    return disturb(monkeypatch, write=-1)


@pytest.mark.parametrize("kind", [SERVICES, DEPLOYMENTS])
def test_nothing_is_created_unless_all_would_be_accepted(
    submitter: Submitter, kind: Kind[Any], created: list[str]
) -> None:
    """Another user's object has the name of TensorBoard's object."""
    labels = {"a": "b"}
    spec: Raw = {"ports": [{"port": 1}]}
    if kind is DEPLOYMENTS:
        pod = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": labels}, "template": pod}
    body = {"metadata": {"name": "j-tensorboard"}, "spec": spec}
    with submitter.client() as client:
        client.create(kind.read_as(dict), body, namespace=submitter.namespace)
    created.clear()

    code, out, err = submitter.arena(*TF, "--tensorboard", "x")

    assert code == 1
    assert out == []
    assert "already exists" in err
    assert "Choose another --name, or, if it is not needed: kubectl delete " in err
    assert submitter.objects() == [f"{kind.kind}/j-tensorboard"]
    assert created == []


def interrupt(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def interrupt_twice() -> None:
    """Press Ctrl-C again, without waiting for the response."""
    interrupt(signal.SIGINT)()
    interrupt(signal.SIGINT)()


def time_out() -> None:
    raise Unreachable("no answer in time")


def break_down() -> None:
    raise ServerError("it broke", status=500)


def disturb(
    monkeypatch: pytest.MonkeyPatch,
    write: int,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> list[str]:
    """Call functions before and after the server creates the n-th object.

    Returns the resource of every object that a client creates, but for dry runs.
    """
    created: list[str] = []
    real = BlockingClient.send

    def send(self: BlockingClient, request: Request) -> Response:
        dry_run = ("dryRun", "All") in request.query
        if request.method != "POST" or dry_run or "/namespaces/" not in request.path:
            return real(self, request)
        created.append(request.path.rpartition("/")[2])
        if len(created) != write + 1:
            return real(self, request)
        before()
        response = real(self, request)
        after()
        return response

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
        (interrupt_twice, 130),
        (time_out, 5),
        (break_down, 1),
    ],
    ids=["ctrl-c", "sigterm", "ctrl-c twice", "timeout", "server error"],
)
def test_a_submission_that_fails_anywhere_leaves_nothing(
    submitter: Submitter,
    monkeypatch: pytest.MonkeyPatch,
    write: int,
    when: str,
    trouble: Callable[[], None],
    expected: int,
) -> None:
    monkeypatch.setattr(transaction, "LOOK_SECONDS", 0.0)
    created = disturb(monkeypatch, write, **{when: trouble})
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    code, out, err = submitter.arena(*WHOLE)

    assert code == expected, err
    assert submitter.objects() == []
    assert out == []
    assert created == list(WRITES[: write + 1])
    assert err.splitlines().count("interrupted: nothing was submitted") == (expected == 130)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("trouble", [interrupt(signal.SIGINT), interrupt_twice, time_out])
def test_an_object_of_another_user_is_not_rolled_back(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], None]
) -> None:
    """Another user creates an object of the record's name between our look and our write."""
    monkeypatch.setattr(transaction, "LOOK_SECONDS", 0.0)
    foreign: Raw = {"metadata": {"name": "j-tfjob"}, "data": {"precious": "yes"}}

    def taken() -> None:
        with submitter.client() as client:
            body = {"apiVersion": "v1", "kind": "ConfigMap", **foreign}
            path = f"/api/v1/namespaces/{submitter.namespace}/configmaps"
            client._transport.send(Request("POST", path, (), json.dumps(body).encode()))
        trouble()

    disturb(monkeypatch, 1, before=taken)
    code, _, _ = submitter.arena(*WHOLE)

    assert code != 0
    assert submitter.objects() == ["ConfigMap/j-tfjob"]
    config_map = submitter.get(CONFIG_MAPS, "j-tfjob")
    assert config_map["data"] == foreign["data"]


def test_a_second_interrupt_does_not_stop_the_roll_back(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = BlockingClient.delete

    def delete(self: BlockingClient, *args: Any, **kwargs: Any) -> None:
        interrupt_twice()
        real(self, *args, **kwargs)

    monkeypatch.setattr(BlockingClient, "delete", delete)
    disturb(monkeypatch, 3, after=interrupt(signal.SIGINT))

    assert submitter.arena(*WHOLE)[0] == 130
    assert submitter.objects() == []


def test_an_interrupted_submission_reports_what_could_not_be_deleted(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(*_: Any, **__: Any) -> None:
        raise Forbidden("you may not delete", status=403)

    monkeypatch.setattr(BlockingClient, "delete", delete)
    disturb(monkeypatch, 1, after=interrupt(signal.SIGINT))
    code, _, err = submitter.arena(*TF, "x")

    assert code == 130
    assert err.splitlines()[-1] == "interrupted: left behind: configmap/j-tfjob, tfjob/j"


def test_a_cluster_that_is_lost_after_the_creation_does_not_hide_that_the_job_exists(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble_with_claims(monkeypatch, Unreachable("the cluster is gone"))

    code, out, err = submitter.arena(*TF, "--data=claim:/data", "x")

    assert code == 0, err
    assert out == [
        "configmap/j-tfjob created",
        "configmap/j-tfjob labeled",
        "tfjob.kubeflow.org/j created",
    ]


def test_ctrl_c_after_the_creation_says_that_the_job_was_submitted(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble_with_claims(monkeypatch, KeyboardInterrupt())

    code, _, err = submitter.arena(*TF, "--data=claim:/data", "x")

    assert code == 130
    assert err == "interrupted: the job j was submitted\n"
    assert submitter.find(TFJOBS, "j") is not None


def trouble_with_claims(monkeypatch: pytest.MonkeyPatch, trouble: BaseException) -> None:
    """Claims are looked for only after the job was created."""
    find = BlockingClient.find

    def disturbed(client: BlockingClient, kind: Kind[Any], key: Key) -> Any:
        if kind is PERSISTENT_VOLUME_CLAIMS:
            raise trouble
        return find(client, kind, key)

    monkeypatch.setattr(BlockingClient, "find", disturbed)
