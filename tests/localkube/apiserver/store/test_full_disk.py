"""The store on a disk that another program keeps full."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest

from kubekit.request_errors import ServerError
from localkube.apiserver.store import disk_reserve, write_log
from localkube.apiserver.store.disk_reserve import Purpose
from localkube.apiserver.store.store import Store
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


async def test_a_new_cluster_on_a_small_disk_gets_a_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk:
        store = await Store.open(disk / "objects.db")
        full = FullDisk(store, disk / "greedy")
        for name in ("a", "b"):
            await store.create(f"pods/a/{name}", text(2000))
        await full.update("a", 3000)
        await full.delete("b")
        await store.close()


def text(length: int, mark: str = "x") -> Callable[[int], bytes]:
    return lambda revision: f'{{"resourceVersion":"{revision}","text":"{mark * length}"}}'.encode()


@pytest.fixture
async def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FullDisk]:
    """A store with some objects, on a disk that is full to the last block."""
    monkeypatch.setattr(disk_reserve, "_LOOK", 0)
    with small_disk(tmp_path / "disk", "64m") as disk:
        store = await Store.open(disk / "objects.db")
        await store.take_reserve()
        for name, length in (("a", 2000), ("b", 2000), ("large", 3_000_000)):
            await store.create(f"pods/a/{name}", text(length))
        await store.take_reserve()
        full = FullDisk(store, disk / "greedy")
        full.fill()
        yield full
        await store.close()


class FullDisk(NamedTuple):
    store: Store
    filler: Path

    def fill(self) -> None:
        fill(self.filler)

    async def update(
        self, name: str, length: int, purpose: Purpose = Purpose.CHANGE, mark: str = "x"
    ) -> None:
        self.fill()
        entry = self.store.get(f"pods/a/{name}")
        assert entry is not None
        await self.store.update(entry.key, text(length, mark), entry.revision, purpose)

    async def delete(self, name: str) -> None:
        self.fill()
        entry = self.store.get(f"pods/a/{name}")
        assert entry is not None
        await self.store.delete(entry.key, text(len(entry.value)), entry.revision)


async def test_updates_that_keep_the_size_go_on_without_end(full: FullDisk) -> None:
    await full.update("a", 200_000)
    for number in range(200):
        await full.update("a", 200_000, mark=str(number % 10))
    await full.delete("a")


async def grow_in_small_steps(full: FullDisk, name: str, purpose: Purpose) -> None:
    for _ in range(1000):
        entry = full.store.get(f"pods/a/{name}")
        assert entry is not None
        await full.update(name, len(entry.value) + 12_000, purpose)


async def test_growing_objects_leave_the_space_that_deletions_need(full: FullDisk) -> None:
    refused = 0
    for length in range(300_000, 3_000_000, 100_000):
        for name in ("a", "b"):
            try:
                await full.update(name, length)
            except ServerError as error:
                assert "is full" in str(error)  # noqa: PT017 - most of them are expected
                refused += 1
    assert refused > 20
    for purpose in (Purpose.CHANGE, Purpose.CHANGE_WHILE_DELETED):
        with pytest.raises(ServerError, match="is full"):
            await grow_in_small_steps(full, "b", purpose)

    # A graceful deletion writes the whole object, then a status, then its end.
    await full.update("large", 3_000_050, Purpose.DELETION)
    await full.update("large", 3_000_000, Purpose.CHANGE_WHILE_DELETED, mark="y")
    await asyncio.gather(*(full.delete(name) for name in ("a", "b", "large")))
    assert list(full.store.scan("pods/")) == []


async def test_a_watch_that_resumes_gets_the_last_state_of_an_object_deleted_on_a_full_disk(
    full: FullDisk,
) -> None:
    start = full.store.revision
    await full.delete("a")
    watch = await full.store.watch("pods/", start)

    (change,) = await watch.next()

    assert change.deleted
    assert f'"resourceVersion":"{full.store.revision}"'.encode() in change.entry.value
    assert b"xxx" in change.entry.value


async def test_a_compaction_that_failed_is_done_by_the_next_one(
    full: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = full.store
    await full.update("a", 2000, mark="y")
    with monkeypatch.context() as patch:
        error = sqlite3.OperationalError("disk I/O error")
        patch.setattr(store._log, "_drop", Mock(side_effect=error))
        with pytest.raises(ServerError, match="cannot write"):
            await store.compact(store.revision)
    await store.compact(store.revision)

    assert [row.key for row in store._log.rows()].count("pods/a/a") == 1


@pytest.mark.parametrize(
    ("code", "free", "sentence"),
    [
        (sqlite3.SQLITE_FULL, True, "the disk of the local cluster is full"),
        (sqlite3.SQLITE_IOERR_WRITE, True, "the disk of the local cluster fails: .*IOERR_WRITE"),
        (sqlite3.SQLITE_IOERR_FSYNC, True, "the disk of the local cluster fails: .*IOERR_FSYNC"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, False, "the disk of the local cluster is full"),
    ],
)
def test_a_failing_disk_is_not_called_a_full_one(
    tmp_path: Path, code: int, free: bool, sentence: str
) -> None:
    names = {value: name for name, value in vars(sqlite3).items() if name.startswith("SQLITE_IO")}
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = code, names.get(code, "SQLITE_FULL")
    with small_disk(tmp_path / "disk", "1m") as disk:
        if not free:
            fill(disk / "greedy")

        assert re.match(sentence, str(write_log.write_failure(disk / "objects.db", error)))
        opened = str(write_log.failure(disk / "objects.db", error))
        assert (" fails: " in opened) == (" fails: " in sentence)
