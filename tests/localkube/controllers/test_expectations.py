"""Writes that informers do not show yet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubekit.objects.meta import ObjectMeta
from kubekit.request_errors import NotFound
from localkube.controllers.pod_control import TIMEOUT, Expectations

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_write_is_pending_until_it_is_observed() -> None:
    expect = Expectations(Clock())
    with expect.creation("owner", "a"), expect.deletion("owner", "uid-b"):
        pass

    expect.observed("owner", ObjectMeta(name="a", uid="uid-a"), gone=False)
    assert expect.pending("owner") == TIMEOUT
    expect.observed("owner", ObjectMeta(name="b", uid="uid-b"), gone=False)
    assert expect.pending("owner") == TIMEOUT  # it was seen, but not on its way out

    expect.observed("owner", ObjectMeta(name="b", uid="uid-b", deletion_timestamp=NOW), gone=False)
    assert expect.pending("owner") is None


def test_failed_and_old_writes_are_not_pending() -> None:
    clock = Clock()
    expect = Expectations(clock)
    with pytest.raises(NotFound), expect.creation("owner", "a"):
        raise NotFound("no such namespace")
    assert expect.pending("owner") is None

    with expect.creation("owner", "b"):
        pass
    clock.now = TIMEOUT
    assert expect.pending("owner") is None
