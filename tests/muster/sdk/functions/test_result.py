"""From a result that is the job's own to a value or an exception."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from kubekit.objects.core import Pod
from muster.client.jobs.waiting import JobFailed
from muster.sdk.functions.result import (
    RemoteError,
    ResultError,
    UntrustedResult,
    check_attempt,
    deliver,
)
from tests.builders import read_pod

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pod(uid: str = "pod-2", *, started: datetime | None = START) -> Pod:
    state = {"terminated": {"exitCode": 0, "startedAt": started}} if started else {}
    status = {"containerStatuses": [{"name": "jax", "state": state}]}
    return read_pod(meta={"uid": uid}, status=status)


def header(outcome: str = "returned", **more: Any) -> dict[str, Any]:
    about = {"outcome": outcome, "pod": "pod-2", "started": START.timestamp() + 0.3}
    error = {"type": "ValueError", "text": "bad", "traceback": "…\nValueError: bad\n"}
    return {**about, **error, **more}


def failure(replica: str = "j-worker-1", *lines: str) -> JobFailed:
    return JobFailed("the job j failed", job="j", replica=replica, last_lines=lines)


def test_the_result_of_the_last_attempt_is_accepted() -> None:
    check_attempt(header(), pod(), restarts_inside=True)
    check_attempt(header(), pod(started=None), restarts_inside=True)
    check_attempt(header(), None, restarts_inside=True)
    check_attempt(header(started=0.0), pod(), restarts_inside=False)


@pytest.mark.parametrize(
    "earlier",
    [header(pod="pod-1"), header(started=START.timestamp() - 5), header(started=0.0)],
)
def test_the_result_of_an_earlier_attempt_is_refused(earlier: dict[str, Any]) -> None:
    with pytest.raises(UntrustedResult, match="earlier attempt"):
        check_attempt(earlier, pod(), restarts_inside=True)


def test_a_value_of_a_job_that_succeeded_is_returned() -> None:
    assert deliver(header(), pickle.dumps([1])) == [1]


def test_a_value_does_not_hide_the_failure_of_another_rank() -> None:
    with pytest.raises(JobFailed, match="the job j failed"):
        deliver(header(), pickle.dumps(1), failure=failure(), others=["j-worker-1"])


def test_an_exception_of_rank_0_is_raised_even_if_another_rank_raised_it_first() -> None:
    body, lines = pickle.dumps(ValueError("bad")), ("x", "ValueError: bad")
    for failed in (None, failure("j-worker-0"), failure("j-worker-1", *lines)):
        with pytest.raises(ValueError, match="bad") as raised:
            deliver(header("raised"), body, failure=failed, others=["j-worker-1"])
        assert "ValueError: bad" in str(raised.value.__cause__)


def test_the_cause_of_a_failure_comes_before_its_consequence_in_rank_0() -> None:
    body = pickle.dumps(ConnectionError("peer is gone"))
    told = header("raised", traceback="…\nConnectionError: peer is gone\n")
    with pytest.raises(JobFailed) as raised:
        deliver(told, body, failure=failure("j-worker-1", "out of memory"), others=["j-worker-1"])

    assert raised.value.last_lines == ("out of memory",)
    assert isinstance(raised.value.__cause__, ConnectionError)


@pytest.mark.parametrize("body", [b"", b"no pickle", pickle.dumps("no exception")])
def test_an_exception_that_cannot_be_rebuilt_becomes_text(body: bytes) -> None:
    with pytest.raises(RemoteError, match=r"rank 0 raised ValueError: bad") as raised:
        deliver(header("raised"), body, failure=failure("j-worker-0"))

    assert raised.value.replica == "j-worker-0"
    assert raised.value.last_lines[-1] == "ValueError: bad"


def test_a_sentence_of_the_replica_is_raised() -> None:
    with pytest.raises(ResultError, match="Python 3"):
        deliver({"outcome": "refused", "text": "Python 3"}, b"")


def test_a_value_of_a_package_that_is_missing_here_says_so() -> None:
    body = b"cno_such_package\nThing\n."

    with pytest.raises(ResultError, match="No module named 'no_such_package'") as wrong:
        deliver(header(), body)

    assert "Install the package" in wrong.value.hint
