"""One pod write passes few modules, so that a reader can follow it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from tests.local.apiserver.running_server import running_server

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

MOST_MODULES = 30
PACKAGE = "/muster/local/apiserver/"


class PassedModules:
    """The modules of the API server that are called, on all threads, while `counting`."""

    def __init__(self) -> None:
        self.counting = False
        self.names: set[str] = set()

    def __enter__(self) -> PassedModules:
        self._previous = sys.getprofile()
        threading.setprofile(self._called)  # for the writer thread of the store
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._previous)
        threading.setprofile(self._previous)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if self.counting and event == "call":
            _, package, module = frame.f_code.co_filename.partition(PACKAGE)
            if package:
                self.names.add(module)


async def test_one_pod_write_seen_by_a_watcher_passes_at_most_thirty_modules(
    tmp_path: Path,
) -> None:
    with PassedModules() as passed:
        async with running_server(tmp_path / "server") as api:
            await api.create_pod("first")  # fills caches
            path = "/api/v1/namespaces/default/pods?watch=true"
            async with api.session.get(api.server.url + path) as watch:
                await watch.content.readline()
                passed.counting = True
                await api.create_pod("second")
                assert b'"second"' in await watch.content.readline()
                passed.counting = False

    assert {"server.py", "verbs.py", "store/write_log.py"} <= passed.names
    assert len(passed.names) <= MOST_MODULES, sorted(passed.names)
