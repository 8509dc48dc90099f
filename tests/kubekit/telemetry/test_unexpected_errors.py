"""A block about one object: an error in it is counted and logged, and others go on."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.telemetry import unexpected_errors
from kubekit.telemetry.unexpected_errors import isolated
from tests.unexpected_errors import counted

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def no_lines_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unexpected_errors, "_lines", {})


def test_an_error_is_counted_logged_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    before, seen = counted().get("a place", 0), []
    for name in ("a", "bad", "c"):
        with isolated("a place", name) as guard:
            seen.append(name)
            if name == "bad":
                raise ZeroDivisionError("a bug")
        assert isinstance(guard.error, ZeroDivisionError) == (name == "bad")

    assert seen == ["a", "bad", "c"]
    assert counted()["a place"] == before + 1
    assert "a place bad: bug: Traceback" in caplog.text


async def test_a_block_that_awaits_can_be_cancelled() -> None:
    before, after = counted().get("a place", 0), []

    async def wait() -> None:
        with isolated("a place", "a"):
            await asyncio.Event().wait()
        after.append("the block")

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not after
    assert counted().get("a place", 0) == before
