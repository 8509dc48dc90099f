"""A process that writes to a store without end and says on stdout what was acknowledged.

Run by `test_store_crash.py`, which kills it. Each line is `key revision kind`; the value of a
write names its own revision, so that a half-written object would show.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from localkube.apiserver.store.collection import Entry
from localkube.apiserver.store.store import Store


def payload(key: str, revision: int) -> bytes:
    """A value of some size that can be checked byte for byte."""
    return f"{key}@{revision};".encode() * 40


def report(entry: Entry, kind: str) -> None:
    sys.stdout.write(f"{entry.key} {entry.revision} {kind}\n")
    sys.stdout.flush()


async def write(store: Store, key: str, dice: random.Random) -> None:
    def encode(revision: int) -> bytes:
        return payload(key, revision)

    while True:
        current = store.get(key)
        if current is None:
            report(await store.create(key, encode), "create")
        elif dice.random() < 0.2:
            report(await store.delete(key, encode, current.revision), "delete")
        else:
            report(await store.update(key, encode, current.revision), "update")
        if dice.random() < 0.01:
            await store.compact(store.revision - 50)


async def main(path: str, seed: str) -> None:
    store = await Store.open(Path(path))
    dice = random.Random(seed)
    async with asyncio.TaskGroup() as group:
        for i in range(8):
            group.create_task(write(store, f"pods/a/{i}", dice))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
