"""A damaged database of a local cluster: found, reported, restored; never lost in silence."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from localkube.apiserver.store import backups
from tests.builders import config_map
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

NAMES = [f"kept-{number}" for number in range(6)]


def listed(local: LocalCluster) -> list[str]:
    listing = json.loads(local.arena("get", "configmaps", "-o", "json").stdout)
    return [item["metadata"]["name"] for item in listing["items"]]


def test_flipped_bytes_of_the_log_are_found_and_a_backup_restores_the_objects(
    tmp_path: Path,
) -> None:
    local = LocalCluster(tmp_path)
    local.up()
    for name in NAMES[:-1]:
        local.apply(config_map(name, mark=f"mark-of-{name}"))
    backups.write(tmp_path / "data" / "objects.db")
    local.apply(config_map(NAMES[-1], mark=f"mark-of-{NAMES[-1]}"))
    local.kill_daemon()
    wal = tmp_path / "data" / "objects.db-wal"
    content = bytearray(wal.read_bytes())
    # Every frame with this object, so that no version of its page has it.
    start, places = content.find(b"mark-of-kept-0"), 0
    while start >= 0:
        content[start : start + 4] = b"MARK"
        start, places = content.find(b"mark-of-kept-0", start), places + 1
    assert places
    wal.write_bytes(content)

    failed = local.arena("up", "--detach", check=False)

    assert failed.returncode == 1
    assert "is damaged" in failed.stderr
    assert "acknowledged" in failed.stderr or "write-ahead log" in failed.stderr
    assert f"arena check --data-dir {tmp_path}/data" in failed.stderr
    assert "bug" not in failed.stderr
    checked = local.arena("check", "-o", "json", check=False)
    report = json.loads(checked.stdout)
    assert checked.returncode == 1
    assert report["problems"]
    local.arena("check", "--restore")
    local.up()
    assert [name for name in listed(local) if name in NAMES] == NAMES[:-1]
    local.apply(config_map(NAMES[-1], mark=f"mark-of-{NAMES[-1]}"))
    odd_rows_are_set_aside(local)
    newer_version_is_refused(local)


def odd_rows_are_set_aside(local: LocalCluster) -> None:
    """A row changed by hand: the collection is listed without it, and users hear of it."""
    local.down()
    database = local.home / "data" / "objects.db"
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE log SET value = 'x' WHERE key = 'configmaps/default/kept-1'")
        db.execute("INSERT INTO log VALUES (9000, 'nodes//odd', 0, 0, x'00', NULL)")
        db.commit()
    (local.home / "data" / "objects.acknowledged").unlink()

    local.up()

    assert [name for name in listed(local) if name in NAMES] == [NAMES[0], *NAMES[2:]]
    status = local.arena("status").stdout
    assert "damaged and set aside" in status
    assert "objects.acknowledged, was lost" in status
    events = until(lambda: reported(local, "configmaps/default/kept-1"), what="the event")
    assert "DamagedObject" in events
    local.apply(config_map("kept-1", mark="mark-of-kept-1"))  # the name is free
    assert "kept-1" in listed(local)


def reported(local: LocalCluster, key: str) -> str:
    """The events, once one of them names the key."""
    events = local.arena("get", "events").stdout
    return events if key in events else ""


def newer_version_is_refused(local: LocalCluster) -> None:
    local.down()
    with closing(sqlite3.connect(local.home / "data" / "objects.db")) as db:
        db.execute("PRAGMA user_version = 99")

    failed = local.arena("up", "--detach", check=False)

    assert failed.returncode == 2
    assert "was written by a newer version of Muster" in failed.stderr
    assert "bug" not in failed.stderr
