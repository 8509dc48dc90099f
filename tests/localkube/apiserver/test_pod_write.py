"""One pod write passes few modules, so that a reader can follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube import apiserver
from tests.localkube.apiserver.running_server import running_server
from tests.modules_called import modules_called

if TYPE_CHECKING:
    from pathlib import Path

MAX_MODULES = 35 + 9 + 2
"""The nine are in `apply`: every write finds the owners of its fields, from the types of the kind
to the entries of `managedFields`. The two ask whether the object can be created in its namespace,
and which service account it has."""


async def test_one_pod_write_seen_by_a_watcher_passes_few_modules(
    tmp_path: Path,
) -> None:
    # The server starts in the block, because the store's writer thread is counted too.
    with modules_called(apiserver) as passed:
        async with running_server(tmp_path / "server") as api:
            await api.create_pod("first")  # fills caches
            path = "/api/v1/namespaces/default/pods?watch=true"
            async with api.session.get(api.server.url + path) as watch:
                await watch.content.readline()
                await api.send("GET", "/apis")  # opens the second connection
                passed.clear()
                await api.create_pod("second")
                assert b'"second"' in await watch.content.readline()
                names = set(passed)

    assert {"server.py", "verbs.py", "store/write_log.py"} <= names
    assert len(names) <= MAX_MODULES, sorted(names)
