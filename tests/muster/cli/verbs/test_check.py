"""`arena check` on databases that are whole, damaged, missing or in use."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from localkube.apiserver.store import backups
from localkube.apiserver.store.store import Store
from muster.cli import main
from muster.client.home import Home


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    return Home.of_user().data


async def write(database: Path, *names: str) -> None:
    store = await Store.open(database)
    for name in names:
        await store.create(f"pods/a/{name}", lambda _: b"value")
    await store.close()


async def names_in(database: Path) -> list[str]:
    store = await Store.open(database)
    names = [entry.key.rpartition("/")[2] for entry in store.scan("pods/")]
    await store.close()
    return names


def test_a_whole_database_is_ok(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(write(data / "objects.db", "x", "y"))

    assert main.run("arena", ["check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"database:  {data}/objects.db",
        "state:     ok",
        "objects:   2 can be read",
        "backups:   none yet",
    ]
    assert main.run("muster", ["check", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["damaged"], report["objects"], report["running"]) == (False, 2, False)


def test_a_damaged_database_is_named_and_a_backup_put_in_its_place(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = data / "objects.db"
    asyncio.run(write(database, "x", "y"))
    backup = backups.write(database)
    asyncio.run(write(database, "z"))
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE log SET value = x'00' WHERE key = 'pods/a/y'")
        db.commit()
    before = database.read_bytes()

    assert main.run("arena", ["check"]) == 1
    out, err = capsys.readouterr()
    assert "state:       damaged" in out
    assert "objects:     2 can be read" in out
    assert "unreadable:  pods/a/y" in out
    assert "error: the database is damaged" in err
    assert "--restore` returns to the newest good backup" in err
    assert database.read_bytes() == before

    assert main.run("arena", ["check", "--restore"]) == 0
    assert f"the cluster has the objects of {backup}" in capsys.readouterr().err
    (folder,) = data.glob("replaced-*")
    assert (folder / "objects.db").read_bytes() == before
    assert main.run("arena", ["check"]) == 0
    assert asyncio.run(names_in(database)) == ["x", "y"]
    assert main.run("arena", ["check", "--restore", str(backup)]) == 0
    assert asyncio.run(names_in(database)) == ["x", "y"]
    assert next_revision(database) > 3  # no revision is used twice


def next_revision(database: Path) -> int:
    async def create() -> int:
        store = await Store.open(database)
        entry = await store.create("pods/a/next", lambda _: b"value")
        await store.close()
        return entry.revision

    return asyncio.run(create())


def test_no_database_and_no_file_are_wrong_usage(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run("arena", ["check"]) == 2
    assert f"there is no database in {data}" in capsys.readouterr().err
    asyncio.run(write(data / "objects.db", "x"))
    assert main.run("arena", ["check", "--restore", "/nowhere"]) == 2


def test_a_database_in_use_is_checked_but_not_replaced(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def check_while_open() -> None:
        store = await Store.open(data / "objects.db")
        await store.create("pods/a/x", lambda _: b"value")
        try:
            assert main.run("arena", ["check"]) == 0
            assert "1 can be read" in capsys.readouterr().out
            assert main.run("arena", ["check", "--restore"]) == 2
            assert "`arena down` stops it" in capsys.readouterr().err
            backups.write(data / "objects.db")
            store._log._db.execute("UPDATE log SET checksum = 0")
            assert main.run("arena", ["check"]) == 1
            assert "`arena down`, then `arena check --data-dir" in capsys.readouterr().err
        finally:
            await store.close()

    asyncio.run(check_while_open())
