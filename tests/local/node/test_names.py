"""Names are written into the pods that are there; one that goes meanwhile disturbs nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.local.node.names import Names
from tests.local.node.builders import pod


class Listed:
    """An informer's face: what it holds, and nothing that changes."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def all(self) -> tuple[Any, ...]:
        return self.objects

    def subscribe(self, listener: Callable[[Any], None]) -> None:
        self.listener = listener

    async def synced(self) -> None:
        return


class Addresses:
    """The part of a runtime that knows where pods are."""

    host_address = "10.0.0.1"

    def address(self, _: object) -> str:
        return "10.0.0.2"

    def last_address(self, _: object) -> str:
        return ""


@pytest.mark.looptime
async def test_a_pod_that_goes_while_names_are_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [pod(name) for name in ("a", "b")]
    names = Names(Addresses(), Listed(*pods), Listed(), tmp_path)  # type: ignore[arg-type]
    files = [tmp_path / p.metadata.uid / "hosts" for p in pods]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    write = names.write

    def write_after_the_first_is_gone(one: Any) -> None:
        if one is pods[0]:
            files[0].unlink()
            files[0].parent.rmdir()
        write(one)

    monkeypatch.setattr(names, "write", write_after_the_first_is_gone)
    names._changed.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await names.run()

    assert not files[0].exists()
    assert "10.0.0.2" in files[1].read_text()
