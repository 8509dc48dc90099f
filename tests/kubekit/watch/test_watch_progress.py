"""Where a list and watch stands: when to list again, and how long to wait."""

from __future__ import annotations

import pytest

from kubekit.errors import MusterError
from kubekit.request_errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kubekit.watch.informer import WatchProgress


def progressed() -> WatchProgress:
    progress = WatchProgress(random=lambda: 0.0)
    progress.listed("5")
    return progress


@pytest.mark.parametrize(
    ("error", "lists_again"),
    [
        (Gone("", status=410), True),
        (NotFound("", status=404), True),
        (Forbidden("", status=403), True),
        (ApiError("", status=400), True),
        (ServerError("", status=500), False),
        (TooManyRequests("", status=429), False),
        (Unauthorized("", status=401), False),
        (Unreachable(""), False),
    ],
)
def test_only_some_errors_require_a_new_list(error: MusterError, lists_again: bool) -> None:
    progress = progressed()
    progress.failed(error)
    assert progress.must_list is lists_again


def test_a_forbidden_watch_is_retried_less_often_than_an_unreachable_one() -> None:
    forbidden, unreachable = progressed(), progressed()
    for _ in range(12):
        slow = forbidden.failed(Forbidden("", status=403))
        fast = unreachable.failed(Unreachable(""))
    assert (slow, fast) == (30.0, 5.0)


def test_retry_after_is_respected() -> None:
    assert progressed().failed(TooManyRequests("", status=429, retry_after=9.0)) == 9.0


def test_a_stream_that_lasted_is_renewed_at_once_and_short_ones_slow_down() -> None:
    progress = progressed()
    assert progress.ended(lasted=300.0) == 0.0
    assert [progress.ended(0.0) for _ in range(3)] == [0.1, 0.2, 0.4]
    progress.saw("6")
    assert progress.version == "6"
    assert progress.ended(0.0) == 0.1
