"""Opening a pod's namespaces: a failure leaves no process behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localkube.node.runtime import namespace_runtime, processes
from localkube.node.standalone.linux import kernel
from localkube.node_interface import CannotRun

pytestmark = pytest.mark.slow


@pytest.fixture
def starters(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The PIDs of the starters."""
    pids: list[int] = []

    def fork_program(*arguments: Any) -> int:
        pids.append(processes.fork_program(*arguments))
        return pids[-1]

    monkeypatch.setattr(namespace_runtime, "fork_program", fork_program)
    return pids


def never(pid: int) -> dict[str, str]:
    raise AssertionError(f"{pid} should not exist")


async def test_a_starter_that_fails_is_reaped(tmp_path: Path, starters: list[int]) -> None:
    with pytest.raises(CannotRun, match="cannot create the pod's namespaces"):
        await namespace_runtime.open_sandbox(tmp_path, {"network": False, "join": 2**22 + 1}, never)

    assert [pid for pid in starters if pid in kernel.pids()] == []


async def test_a_starter_that_hangs_is_killed_and_reaped(
    tmp_path: Path, starters: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_runtime, "_START_TIMEOUT", 0.3)
    monkeypatch.setattr(
        namespace_runtime, "_send", lambda *_: None
    )  # the starter waits for its request

    with pytest.raises(CannotRun, match=r"did not start in 0\.3 s"):
        await namespace_runtime.open_sandbox(tmp_path, {}, never)

    assert [pid for pid in starters if pid in kernel.pids()] == []
