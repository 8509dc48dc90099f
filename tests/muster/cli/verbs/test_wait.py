"""`arena wait`: the exit code is the job's, and no end is missed."""

from __future__ import annotations

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import Request, Response
from kubekit.objects.meta import Key
from kubekit.request_errors import ApiError, Forbidden, Gone, NotFound, Unreachable
from muster.client.jobs import lookup, waiting
from muster.client.jobs.waiting import JobWatch
from muster.contract.job_kinds import TFJOBS
from tests.muster.cli.place import Place, ended, finish


def test_a_missing_job_is_reported_before_others_are_waited_for(place: Place) -> None:
    place.job("goes-on")

    code, out, err = place.arena("wait", "goes-on", "nope", "--timeout", "1h")

    assert (code, out) == (3, "")
    assert "nope" in err


def test_the_exit_code_of_wait_is_the_jobs(place: Place) -> None:
    place.job("good", **ended("Succeeded"))
    place.job("bad", **ended("Failed"))

    assert place.arena("wait", "good")[:2] == (0, "tfjob/good succeeded\n")
    assert place.arena("wait", "bad", "good")[:2] == (10, "tfjob/good succeeded\n")
    assert place.arena("wait", "good", "--for", "running")[0] == 0
    assert place.arena("wait", "nope")[0] == 3
    assert place.arena("wait", "nope", "--for", "deleted")[:2] == (0, "nope deleted\n")


def test_a_job_that_failed_for_want_of_retries_names_the_flag(place: Place) -> None:
    first = {"pod": "bad-worker-1", "role": "worker", "index": 1, "exitCode": 137}
    failure = {"code": "ReplicasFailed", "first": first, "role": "Worker", "count": 1}
    place.job("bad", **ended("Failed"), failure={**failure, "withoutRetry": True})

    code, _, err = place.arena("wait", "bad")

    assert code == 10
    assert "--retry=3" in err.splitlines()[-1]


def test_a_job_that_waits_says_so_in_a_pipe_once_per_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JobWatch.wait
    reasons = ["1 of 2 workers fit", "1 of 2 workers fit", "0 of 2 workers fit"]

    def wait(self: JobWatch, seconds: float) -> None:
        if reasons:
            wait_for_room(reasons.pop(0))
        else:
            finish(place, "w", "Succeeded")
        real(self, seconds)

    def wait_for_room(reason: str) -> None:
        status = {"waiting": {"reason": "Unschedulable", "message": reason}}
        place.client.patch(
            TFJOBS, Key(place.namespace, "w"), {"status": status}, subresource="status"
        )

    monkeypatch.setattr(JobWatch, "wait", wait)
    place.job("w")
    wait_for_room("no worker fits")

    code, out, err = place.arena("wait", "w")

    assert (code, out) == (0, "tfjob/w succeeded\n")
    assert err.splitlines() == [
        "w PENDING: no worker fits",
        "w PENDING: 1 of 2 workers fit",
        "w PENDING: 0 of 2 workers fit",
        "w SUCCEEDED",
    ]


def watch(place: Place, name: str) -> JobWatch:
    return JobWatch(place.client, TFJOBS, place.client.get(TFJOBS, Key(place.namespace, name)))


@pytest.mark.parametrize("type_", ["Failed", "Succeeded"])
def test_an_end_between_two_looks_is_seen_although_the_job_is_deleted(
    place: Place, type_: str
) -> None:
    place.job("a")
    watching = watch(place, "a")
    assert watching.look().status == "PENDING"
    finish(place, "a", type_)
    place.job("a")  # another one

    watching.wait(1)

    assert watching.look().status == type_.upper()
    watching.wait(0)
    assert watching.look().status == type_.upper()


def test_a_job_that_was_deleted_before_its_end_is_not_found(place: Place) -> None:
    place.job("a")
    watching = watch(place, "a")
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
    watching = watch(place, "a")
    key = Key(place.namespace, "a")
    place.client.patch(TFJOBS, key, {"status": ended("Failed")}, subresource="status")
    watching.wait(0)
    assert watching.look().status == "FAILED"
    place.client.delete(TFJOBS, key)
    watching.wait(0)
    assert watching.look().status == "FAILED"


def test_an_end_is_seen_after_the_cluster_was_unreachable(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.job("a")
    watching = watch(place, "a")
    with monkeypatch.context() as away:
        away.setattr(BlockingClient, "send", _away)
        watching.wait(0)
        with pytest.raises(Unreachable):
            watching.look()
    finish(place, "a", "Failed")

    watching.wait(1)

    assert watching.look().status == "FAILED"


def test_a_deletion_is_seen_after_the_cluster_was_unreachable(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [Unreachable("no answer"), NotFound("gone")]

    def get_job(*_: object) -> None:
        raise looks.pop(0)

    monkeypatch.setattr(lookup, "get_job", get_job)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0)

    assert place.arena("wait", "a", "--for", "deleted")[:2] == (0, "a deleted\n")
    looks.append(Unreachable("no answer"))
    assert place.arena("wait", "a", "--for", "deleted", "--timeout", "0s")[0] == 5


def _away(*_: object) -> Response:
    raise Unreachable("no answer")


@pytest.mark.parametrize(("type_", "expected"), [("Failed", 10), ("Succeeded", 0)])
def test_the_exit_code_is_the_jobs_even_with_a_short_time_to_live(
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
