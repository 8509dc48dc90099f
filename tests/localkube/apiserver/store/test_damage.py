"""Damage of the database is found and reported; no acknowledged write is lost in silence."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kubekit.errors import ConfigError, MusterError, UsageError
from kubekit.request_errors import ServerError
from localkube.apiserver.store import backups, check
from localkube.apiserver.store.damage import DamagedStore
from localkube.apiserver.store.database import SCHEMA, take_lock
from localkube.apiserver.store.store import Store

FILES = ("objects.db", "objects.db-wal", "objects.acknowledged")


def value(text: str) -> Callable[[int], bytes]:
    return lambda revision: f'{{"text":"{text}","revision":{revision}}}'.encode() * 5


async def write_objects(
    path: Path, crashed: Path, *, checkpoint: bool, count: int = 40
) -> dict[str, bytes]:
    """Write, and copy the files as a killed server leaves them; returns the objects."""
    store = await Store.open(path)
    for number in range(count):
        entry = await store.create(f"pods/a/{number:03}", value("new"))
        if number % 3 == 0:
            await store.update(entry.key, value("changed"), entry.revision)
        if number % 7 == 0:
            current = store.get(entry.key)
            assert current is not None
            await store.delete(entry.key, value("gone"), current.revision)
        if number == count // 2:
            await store.compact(store.revision)
    if checkpoint:
        store._log._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    objects = {entry.key: entry.value for entry in store.scan("pods/")}
    copy_files(path, crashed)
    await store.close()
    return objects


def copy_files(path: Path, folder: Path) -> None:
    folder.mkdir()
    for name in FILES:
        shutil.copy(path.with_name(name), folder / name)


async def opened(path: Path) -> tuple[dict[str, bytes], set[str]]:
    """The objects, and the keys that were set aside."""
    store = await Store.open(path)
    try:
        return {e.key: e.value for e in store.scan("pods/")}, {r.key for r in store.odd_rows}
    finally:
        await store.close()


@pytest.fixture(scope="module", params=[False, True], ids=["in the log", "in the database"])
def crashed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("store")
    work = write_objects(folder / "objects.db", folder / "crashed", checkpoint=request.param)
    return folder / "crashed", asyncio.run(work)


@given(data=st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_flipped_bytes_never_lose_or_change_an_object_in_silence(
    crashed: tuple[Path, dict[str, bytes]], data: st.DataObject
) -> None:
    source, objects = crashed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        shutil.copytree(source, folder)
        files = [folder / name for name in FILES[:2] if (folder / name).stat().st_size]
        file = data.draw(st.sampled_from(files))
        content = bytearray(file.read_bytes())
        # The blocks that the write-ahead log has in advance hold zeros.
        used = len(content.rstrip(b"\0"))
        start = data.draw(st.integers(0, used - 1))
        noise = data.draw(st.binary(min_size=1, max_size=8))
        content[start : start + len(noise)] = bytes(
            a ^ b for a, b in zip(content[start:], noise, strict=False)
        )
        file.write_bytes(content)
        try:
            report = check.check(folder / "objects.db")
        except ConfigError:  # the number of the version
            with pytest.raises(ConfigError):
                asyncio.run(opened(folder / "objects.db"))
            return
        try:
            found, aside = asyncio.run(opened(folder / "objects.db"))
        except DamagedStore:
            assert report.problems
            return
        assert aside <= {*report.unreadable} | ({*objects} if report.problems else set())
        for key, stored in objects.items():
            assert found.get(key) == stored or key in aside, key
        assert set(found) <= set(objects)


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    await (await Store.open(path)).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    before = path.read_bytes()

    with pytest.raises(ConfigError, match="newer version of Muster") as caught:
        await Store.open(path)

    assert "Install that version" in caught.value.hint
    assert path.read_bytes() == before


async def test_a_row_that_was_changed_by_hand_is_set_aside_and_can_be_written_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    for name in "xyz":
        await store.create(f"pods/a/{name}", value(name))
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE log SET value = 'odd' WHERE key = 'pods/a/y'")
        db.execute("UPDATE log SET key = CAST(x'ff' AS TEXT) WHERE key = 'pods/a/z'")
        db.execute("INSERT INTO log VALUES (99, 'pods/a/w', 1, 0, x'00', NULL)")
        db.commit()

    store = await Store.open(path)
    assert [entry.key for entry in store.scan("pods/")] == ["pods/a/x"]
    assert {row.revision for row in store.odd_rows} == {2, 3, 99}
    await store.create("pods/a/y", value("again"))
    await store.compact(store.revision)
    assert [e.key for e in await store.scan_at("pods/", store.revision)] == [
        "pods/a/x",
        "pods/a/y",
    ]
    await store.close()
    assert set((await opened(path))[0]) == {"pods/a/x", "pods/a/y"}


async def test_a_file_that_is_not_a_database_is_reported_with_the_newest_backup(
    tmp_path: Path,
) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    await store.create("pods/a/x", value("x"))
    backup = await store.back_up()
    await store.close()
    path.write_bytes(b"noise" * 2000)

    with pytest.raises(DamagedStore, match="is damaged") as caught:
        await Store.open(path)

    assert f"arena check --data-dir {tmp_path}" in caught.value.hint
    assert str(backup) in caught.value.hint


async def test_damage_while_the_server_runs_is_answered_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    await store.create("pods/a/x", value("x"))
    store._log._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._log._db.execute("PRAGMA shrink_memory")
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)

    with pytest.raises(ServerError, match=r"is damaged.*arena check"):
        await store.create("pods/a/y", value("y"))
    await store.close()


async def test_an_emptied_database_is_damage_and_not_a_new_cluster(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    await store.create("pods/a/x", value("x"))
    await store.close()
    path.write_bytes(b"")

    with pytest.raises(DamagedStore, match="1 acknowledged write is missing"):
        await Store.open(path)


async def test_backups_are_few_verified_and_need_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "objects.db"
    store = await Store.open(path)
    entry = await store.create("pods/a/x", value("x"))
    for hour in range(backups.KEPT + 2):
        backups.write(path, datetime(2026, 1, 1, hour, tzinfo=UTC))
    kept = backups.all_backups(path)
    assert [file.name[8:-3] for file in kept] == [f"20260101T0{h}0000Z" for h in (2, 3, 4)]
    assert kept[-1].stat().st_mode & 0o077 == 0
    monkeypatch.setattr(backups, "_SPARE", 1 << 60)
    with pytest.raises(MusterError, match="too little free space"):
        await store.back_up()
    monkeypatch.undo()

    store._log._db.execute("UPDATE log SET checksum = 0")
    with pytest.raises(MusterError, match="arena check"):
        await store.back_up()

    await store.close()
    assert backups.all_backups(path) == kept
    assert await opened(kept[-1]) == ({"pods/a/x": entry.value}, set())


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "flipped"])
async def test_the_loss_of_the_record_of_acknowledged_writes_is_reported_once(
    tmp_path: Path, lost: bool
) -> None:
    database, record = tmp_path / "objects.db", tmp_path / "objects.acknowledged"
    await write_objects(database, tmp_path / "crashed", checkpoint=False)
    assert check.check(database).problems == []
    if lost:
        record.unlink()
    else:
        content = bytearray(record.read_bytes())
        content[10] ^= 1
        record.write_bytes(content)

    report = check.check(database)
    store = await Store.open(database)

    assert report.damaged
    assert "objects.acknowledged" in report.problems[0]
    assert store.record_lost
    await store.close()
    assert not check.check(database).damaged
    store = await Store.open(database)
    assert not store.record_lost
    await store.close()


async def test_a_database_that_never_had_a_record_opens_without_a_complaint(tmp_path: Path) -> None:
    database = tmp_path / "objects.db"
    await write_objects(database, tmp_path / "crashed", checkpoint=False)
    (tmp_path / "objects.acknowledged").unlink()
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA application_id = 0")  # as an earlier version leaves it

    assert not check.check(database).damaged
    store = await Store.open(database)

    assert not store.record_lost
    await store.close()


async def test_a_check_holds_the_lock_to_its_end_and_a_running_store_gives_no_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "objects.db"
    await write_objects(database, tmp_path / "crashed", checkpoint=False)
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE log SET value = 'x' WHERE key = 'pods/a/001'")
        db.commit()

    def backups_under_lock(database: Path) -> list[Path]:
        with pytest.raises(ConfigError, match="in use"):
            take_lock(database)
        return []

    monkeypatch.setattr(backups, "all_backups", backups_under_lock)
    assert check.check(database).unreadable == ["pods/a/001"]

    store = await Store.open(database)
    await store.create("pods/a/001", value("again"))
    for number in range(20):
        writes = [store.create(f"pods/b/{number}-{n}", value("new")) for n in range(50)]
        checking = asyncio.create_task(asyncio.to_thread(check.check, database))
        await asyncio.gather(*writes)
        report = await checking
        assert (report.running, report.problems, report.unreadable) == (True, [], [])
    (tmp_path / "objects.acknowledged").unlink()
    assert check.check(database).damaged
    await store.close()


async def test_a_restore_takes_the_newest_good_backup_and_keeps_the_files_that_were_in_use(
    tmp_path: Path,
) -> None:
    database = tmp_path / "objects.db"
    store = await Store.open(database)
    kept = await store.create("pods/a/kept", value("old"))
    changed = await store.update("pods/a/kept", value("kept"), kept.revision)
    gone = await store.create("pods/a/gone", value("gone"))
    await store.delete("pods/a/gone", value("gone"), gone.revision)
    good = backups.write(database, datetime(2026, 1, 1, 1, tzinfo=UTC))
    await store.create("pods/a/later", value("later"))
    odd = backups.write(database, datetime(2026, 1, 1, 2, tzinfo=UTC))
    torn = backups.write(database, datetime(2026, 1, 1, 3, tzinfo=UTC))
    last = await store.create("pods/a/last", value("last"))
    await store.close()
    with closing(sqlite3.connect(odd)) as db:
        db.execute("UPDATE log SET value = 'x' WHERE key = 'pods/a/later'")
        db.commit()
    torn.write_bytes(torn.read_bytes()[:5000])
    database.write_bytes(b"noise" * 2000)

    for damaged in (odd, torn):
        with pytest.raises(DamagedStore, match=f"{damaged} is damaged"):
            check.restore(database, damaged)
    assert database.read_bytes() == b"noise" * 2000
    source, folder = check.restore(database)

    assert source == good
    assert (folder / "objects.db").read_bytes() == b"noise" * 2000
    assert await opened(database) == ({"pods/a/kept": changed.value}, set())
    assert not check.check(database).damaged
    store = await Store.open(database)
    assert store.compacted >= last.revision  # no revision is used twice; old watches are told
    fresh = await store.create("pods/a/gone", value("again"))
    assert fresh.revision > last.revision
    await store.close()


async def test_a_file_without_objects_and_a_missing_backup_are_not_restored(tmp_path: Path) -> None:
    database, other = tmp_path / "objects.db", tmp_path / "other.db"
    await write_objects(database, tmp_path / "crashed", checkpoint=True)
    before = database.read_bytes()
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE something (text TEXT)")
    (tmp_path / "noise.db").write_bytes(b"noise" * 2000)

    with pytest.raises(DamagedStore, match="has no backup"):
        check.restore(database)
    for name in ("other.db", "noise.db"):
        with pytest.raises(DamagedStore, match=f"{name} is damaged"):
            check.restore(database, tmp_path / name)
    with pytest.raises(UsageError, match="there is no file"):
        check.restore(database, tmp_path / "missing.db")

    assert database.read_bytes() == before
    assert not (tmp_path / "objects.draft").exists()
