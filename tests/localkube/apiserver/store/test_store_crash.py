"""`kill -9` at any moment: no acknowledged write is lost, and no object is half written."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

from localkube.apiserver.store.store import Store
from tests.localkube.apiserver.store.store_writer import payload

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 6


def run_and_kill(path: Path, seed: int) -> list[tuple[str, int, str]]:
    """The writes that a process acknowledged before it was killed at a random moment."""
    kill_after = random.Random(seed).randrange(1, 800)
    acknowledged: list[tuple[str, int, str]] = []
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.localkube.apiserver.store.store_writer",
            str(path),
            str(seed),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if not line.endswith("\n"):
                break  # the kill cut the line, so that write is not acknowledged
            key, revision, kind = line.split()
            acknowledged.append((key, int(revision), kind))
            if len(acknowledged) == kill_after:
                writer.kill()
    assert writer.returncode == -9
    assert len(acknowledged) >= kill_after
    return acknowledged


async def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    newest: dict[str, tuple[int, str]] = {}
    for seed in range(ROUNDS):
        for key, revision, kind in run_and_kill(path, seed):
            assert revision > newest.get(key, (0, ""))[0]
            newest[key] = (revision, kind)

        store = await Store.open(path)
        stored = {entry.key: entry for entry in store.scan("pods/")}
        for entry in stored.values():
            assert entry.value == payload(entry.key, entry.revision)
        for key, (revision, kind) in newest.items():
            latest = store._latest.get(key, 0)
            if latest <= revision:
                # Nothing newer was written, so exactly the acknowledged state is there. (A key
                # whose deletion was compacted has no latest revision at all.)
                assert (key in stored) == (kind != "delete")
                assert latest == revision or kind == "delete"
            newest[key] = (max(latest, revision), "update" if key in stored else "delete")
        await store.close()
