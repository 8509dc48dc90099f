"""The store keeps every acknowledged write, in order, and watchers see each change once."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kubekit.errors import ConfigError
from kubekit.request_errors import AlreadyExists, Conflict, Gone, NotFound, ServerError
from localkube.apiserver.store import disk_reserve, store as watch_module
from localkube.apiserver.store.database import Row
from localkube.apiserver.store.store import Store, Watch
from localkube.apiserver.store.write_log import WriteLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


def value(text: str) -> Callable[[int], bytes]:
    return lambda revision: f"{text}@{revision}".encode()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "db" / "objects.db")
    yield store
    await store.close()


async def next_changes(watch: Watch, count: int) -> list[tuple[str, str, bool]]:
    """The next `count` changes as (key, value, deleted)."""
    rows: list[tuple[str, str, bool]] = []
    async with asyncio.timeout(60):
        while len(rows) < count:
            batch = await watch.next()
            rows += [(c.entry.key, c.entry.value.decode(), c.deleted) for c in batch]
    return rows


async def test_writes_of_one_turn_of_the_loop_are_one_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    append = WriteLog.append

    def counting(log: WriteLog, rows: list[Row]) -> None:
        sizes.append(len(rows))
        append(log, rows)

    monkeypatch.setattr(WriteLog, "append", counting)
    await asyncio.gather(*(store.create(f"pods/a/{n}", value("x")) for n in range(30)))

    assert sizes == [30]


async def test_a_store_that_closes_at_once_keeps_the_last_writes(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "objects.db")
    write = asyncio.ensure_future(store.create("pods/a/x", value("one")))
    await asyncio.sleep(0)  # submitted, and not handed over yet
    await store.close()
    await write
    store = await Store.open(tmp_path / "objects.db")
    found = store.get("pods/a/x")
    await store.close()

    assert found is not None


async def test_the_encoder_gets_the_revision_of_the_write(store: Store) -> None:
    entry = await store.create("pods/a/x", value("one"))

    assert entry.value == f"one@{entry.revision}".encode()
    assert store.get("pods/a/x") is entry
    assert store.revision == entry.revision


async def test_a_name_in_use_cannot_be_created_again(store: Store) -> None:
    await store.create("pods/a/x", value("one"))

    with pytest.raises(AlreadyExists):
        await store.create("pods/a/x", value("two"))


async def test_of_ten_concurrent_creates_exactly_one_succeeds(store: Store) -> None:
    results = await asyncio.gather(
        *(store.create("pods/a/x", value(str(i))) for i in range(10)), return_exceptions=True
    )

    assert sum(isinstance(r, AlreadyExists) for r in results) == 9


async def test_of_two_concurrent_updates_the_second_gets_a_conflict(store: Store) -> None:
    first = await store.create("pods/a/x", value("one"))
    winner, loser = await asyncio.gather(
        store.update("pods/a/x", value("two"), first.revision),
        store.update("pods/a/x", value("three"), first.revision),
        return_exceptions=True,
    )

    assert isinstance(loser, Conflict)
    assert store.get("pods/a/x") is winner


async def test_the_name_of_a_deleted_object_can_be_created_again(store: Store) -> None:
    first = await store.create("pods/a/x", value("one"))
    await store.delete("pods/a/x", value("last"), first.revision)

    assert store.get("pods/a/x") is None
    with pytest.raises(NotFound):
        await store.update("pods/a/x", value("two"), first.revision)
    await store.create("pods/a/x", value("again"))
    assert [e.key for e in store.scan("pods/")] == ["pods/a/x"]


async def test_a_scan_gives_one_namespace_in_the_order_of_keys(store: Store) -> None:
    for key in ("pods/b/2", "pods/b/1", "pods/ba/3", "pods/a/4", "nodes//5"):
        await store.create(key, value("v"))

    assert [e.key for e in store.scan("pods/b/")] == ["pods/b/1", "pods/b/2"]
    assert [e.key for e in store.scan("pods/", after="pods/b/1")] == ["pods/b/2", "pods/ba/3"]


async def test_an_earlier_state_can_still_be_read(store: Store) -> None:
    entry = await store.create("pods/a/x", value("one"))
    await store.create("pods/a/y", value("y"))
    await store.delete("pods/a/x", value("last"), entry.revision)

    assert [e.key for e in await store.scan_at("pods/", entry.revision)] == ["pods/a/x"]
    assert [e.key for e in await store.scan_at("pods/", store.revision)] == ["pods/a/y"]


async def test_a_watch_replays_past_changes_and_then_follows(store: Store) -> None:
    first = await store.create("pods/a/x", value("one"))
    await store.create("nodes//n", value("node"))
    second = await store.update("pods/a/x", value("two"), first.revision)

    watch = await store.watch("pods/", first.revision)
    await store.delete("pods/a/x", value("last"), second.revision)

    assert await next_changes(watch, 2) == [
        ("pods/a/x", f"two@{second.revision}", False),
        ("pods/a/x", f"last@{store.revision}", True),
    ]


async def test_a_watch_older_than_memory_is_served_from_the_table(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    first = await store.create("pods/a/x", value("one"))
    second = await store.update("pods/a/x", value("two"), first.revision)
    await store.close()

    store = await Store.open(path)
    watch = await store.watch("pods/", first.revision)
    (change,) = await watch.next()
    third = await store.update("pods/a/x", value("three"), second.revision)

    assert (change.entry.revision, change.before and change.before.value) == (
        second.revision,
        f"one@{first.revision}".encode(),
    )
    assert await next_changes(watch, 1) == [("pods/a/x", f"three@{third.revision}", False)]
    await store.close()


async def test_objects_and_the_revision_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    entries = [await store.create(f"pods/a/{i}", value("v")) for i in range(20)]
    await store.delete("pods/a/3", value("last"), entries[3].revision)
    before = {e.key: e.value for e in store.scan("pods/")}
    revision = store.revision
    await store.close()

    store = await Store.open(path)
    assert {e.key: e.value for e in store.scan("pods/")} == before
    assert store.revision == revision
    assert (await store.create("pods/a/3", value("again"))).revision == revision + 1
    await store.close()


async def test_compaction_keeps_present_objects_and_forgets_past_ones(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    entry = await store.create("pods/a/x", value("0"))
    for i in range(50):
        entry = await store.update("pods/a/x", value(str(i)), entry.revision)
    deleted = await store.create("pods/a/gone", value("g"))
    await store.delete("pods/a/gone", value("last"), deleted.revision)
    last = store.revision

    await store.compact(last)

    with pytest.raises(Gone):
        await store.watch("pods/", last - 1)
    with pytest.raises(Gone):
        await store.scan_at("pods/", last - 1)
    await store.close()
    store = await Store.open(path)
    assert [e.value for e in store.scan("pods/")] == [entry.value]
    # The newest row of all was a deletion and is dropped; its number must not come back.
    assert (await store.create("pods/a/gone", value("new"))).revision == last + 1
    await store.close()


async def test_a_replaced_object_survives_compaction_while_a_later_change_needs_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    entry = await store.create("pods/a/x", value("one"))
    await store.update("pods/a/x", value("two"), entry.revision)
    await store.compact(entry.revision)
    await store.close()

    store = await Store.open(path)
    watch = await store.watch("pods/", entry.revision)
    (change,) = await watch.next()

    assert change.before is not None
    assert change.before.value == entry.value
    await store.close()


@pytest.mark.parametrize("limit", ["MAX_CHANGES", "MAX_BYTES"])
async def test_a_watcher_that_falls_too_far_behind_is_ended_and_can_resume(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(watch_module, limit, 5 if limit == "MAX_CHANGES" else 50)
    start = store.revision
    watch = await store.watch("pods/", start)
    for i in range(20):
        await store.create(f"pods/a/{i:02}", value("ten bytes"))

    assert watch.ended
    assert watch.idle
    watch.close()
    resumed = await store.watch("pods/", start)
    assert [key for key, _, _ in await next_changes(resumed, 20)] == [
        f"pods/a/{i:02}" for i in range(20)
    ]


async def test_an_ended_watch_still_delivers_waiting_changes(store: Store) -> None:
    watch = await store.watch("pods/", store.revision)
    await store.create("pods/a/before", value("x"))
    watch.end()
    await store.create("pods/a/after", value("x"))

    assert [change.entry.key for change in await watch.next()] == ["pods/a/before"]
    watch.close()


async def test_a_second_server_cannot_open_a_store_in_use(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="in use"):
        await Store.open(tmp_path / "db" / "objects.db")


async def test_a_write_that_fails_on_disk_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = await store.create("pods/a/x", value("one"))

    def full(rows: object) -> None:
        raise ServerError("the store cannot write: disk full", status=500)

    with monkeypatch.context() as patch:
        patch.setattr(store._log, "append", full)
        with pytest.raises(ServerError):
            await store.update("pods/a/x", value("two"), entry.revision)
        with pytest.raises(ServerError):
            await store.create("pods/a/y", value("y"))

    assert store.get("pods/a/x") is entry
    await store.update("pods/a/x", value("three"), entry.revision)
    await store.create("pods/a/y", value("y"))


class BrokenDisk:
    """A database whose transactions can neither be committed nor rolled back."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)

    def execute(self, statement: str) -> None:
        if statement in ("COMMIT", "ROLLBACK"):
            raise sqlite3.OperationalError("disk I/O error")
        self._db.execute(statement)


async def test_writes_are_answered_although_a_transaction_cannot_be_rolled_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store._log, "_db", BrokenDisk(store._log._db))
        for name in "xy":
            with pytest.raises(ServerError, match="disk I/O error"):
                await asyncio.wait_for(store.create(f"pods/a/{name}", value("one")), 60)

    with pytest.raises(ServerError):  # the open transaction is rolled back now
        await store.create("pods/a/x", value("two"))
    await store.create("pods/a/x", value("three"))


def disk_full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


async def test_on_a_full_disk_objects_can_be_changed_and_deleted_but_not_created(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_reserve, "_LOOK", 0)
    first = await store.create("pods/a/x", value("one"))

    with monkeypatch.context() as patch:
        patch.setattr(store._log.reserve, "free", lambda: 1000)
        assert not store.has_room()
        second = await store.update("pods/a/x", value("two"), first.revision)
        with pytest.raises(ServerError, match="full"):
            await store.create("pods/a/y", value("y"))
        await store.delete("pods/a/x", value("two"), second.revision)

    assert store.get("pods/a/x") is None
    await store.create("pods/a/y", value("y"))


async def test_the_store_survives_a_failed_compaction(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = await store.create("pods/a/x", value("one"))

    def full(after: int, reached: int) -> None:
        raise disk_full()

    with monkeypatch.context() as patch:
        patch.setattr(store._log, "_drop", full)
        with pytest.raises(ServerError, match="is full"):
            await store.compact(entry.revision)

    await store.update("pods/a/x", value("two"), entry.revision)


@pytest.mark.slow
async def test_a_hundred_thousand_objects_are_loaded_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    pad = b"x" * 500
    for start in range(0, 100_000, 10_000):
        await asyncio.gather(
            *(store.create(f"pods/a/{i:06}", lambda _: pad) for i in range(start, start + 10_000))
        )
    await store.close()

    store = await Store.open(path)
    assert sum(1 for _ in store.scan("pods/")) == 100_000
    assert sum(1 for _ in store.scan("pods/a/0000")) == 100
    await store.close()
