"""The store on a disk that another program keeps full."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import ServerError
from muster.local.apiserver.store import disk_reserve
from muster.local.apiserver.store.store import Store
from tests.small_disk import fill, small_disk


async def test_a_program_that_takes_every_free_block_does_not_prevent_changes_and_deletions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_reserve, "_LOOK", 0)
    with small_disk(tmp_path / "disk", "40m") as disk:
        store = await Store.open(disk / "objects.db")
        await store.take_reserve()
        entries = [await store.create(f"pods/a/{i:03}", lambda _: b"x" * 2000) for i in range(400)]
        for entry in entries:
            fill(disk / "greedy")
            changed = await store.update(entry.key, lambda _: b"y" * 2000, entry.revision)
            await store.delete(entry.key, lambda _: b"y" * 2000, changed.revision)
            if changed.revision % 200 == 0:  # housekeeping does this every second
                await store.compact(store.revision)
        with pytest.raises(ServerError, match="full"):
            await store.create("pods/a/new", lambda _: b"new")

        (disk / "greedy").unlink()
        await store.create("pods/a/new", lambda _: b"new")
        await store.close()
        store = await Store.open(disk / "objects.db")
        assert [entry.key for entry in store.scan("pods/")] == ["pods/a/new"]
        await store.close()
