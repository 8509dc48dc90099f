"""The store against a model of three lines: a dict, a list of writes, and a counter."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubekit.request_errors import AlreadyExists, Conflict, Gone, NotFound
from localkube.apiserver.store.collection import Entry
from localkube.apiserver.store.store import Store

# Never empty, as no object is: the row of a deletion without a value stands for the value before
# it, which saves space on a full disk.
DATA = st.binary(min_size=1, max_size=8)
KEYS = st.sampled_from([f"{r}/{n}/{i}" for r in ("pods", "jobs") for n in "ab" for i in "xy"])


class StoreMachine(RuleBasedStateMachine):
    """Random writes, restarts, compactions and resumed watches."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.home = tempfile.TemporaryDirectory()
        self.path = Path(self.home.name) / "objects.db"
        self.store = self.loop.run_until_complete(Store.open(self.path))
        self.model: dict[str, tuple[int, bytes]] = {}
        self.writes: list[tuple[int, str, bytes, bool]] = []
        self.compacted = 0

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.run_until_complete(self.store.close())
            self.loop.close()
            self.home.cleanup()

    def wrote(self, entry: Entry, *, deleted: bool = False) -> None:
        assert not self.writes or entry.revision > self.writes[-1][0]
        self.writes.append((entry.revision, entry.key, entry.value, deleted))

    @rule(key=KEYS, data=DATA)
    def create(self, key: str, data: bytes) -> None:
        work = self.store.create(key, lambda _: data)
        if key in self.model:
            with pytest.raises(AlreadyExists):
                self.loop.run_until_complete(work)
        else:
            entry = self.loop.run_until_complete(work)
            self.model[key] = (entry.revision, data)
            self.wrote(entry)

    @rule(key=KEYS, data=DATA, stale=st.booleans(), delete=st.booleans())
    def replace(self, key: str, data: bytes, stale: bool, delete: bool) -> None:
        known = self.model.get(key, (0, b""))[0] - stale
        verb = self.store.delete if delete else self.store.update
        work = verb(key, lambda _: data, known)
        if key not in self.model or stale:
            with pytest.raises(Conflict if key in self.model else NotFound):
                self.loop.run_until_complete(work)
            return
        entry = self.loop.run_until_complete(work)
        if delete:
            del self.model[key]
        else:
            self.model[key] = (entry.revision, data)
        self.wrote(entry, deleted=delete)

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.store = self.loop.run_until_complete(Store.open(self.path))

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, self.writes[-1][0]))
        self.loop.run_until_complete(self.store.compact(at))
        self.compacted = max(self.compacted, at)

    @rule(data=st.data(), prefix=st.sampled_from(["pods/", "pods/a/", "jobs/b/"]))
    def resume(self, data: st.DataObject, prefix: str) -> None:
        since = data.draw(st.integers(0, self.writes[-1][0] if self.writes else 0))
        if since < self.compacted:
            with pytest.raises(Gone):
                self.loop.run_until_complete(self.store.watch(prefix, since))
            return
        watch = self.loop.run_until_complete(self.store.watch(prefix, since))
        expected = [w for w in self.writes if w[0] > since and w[1].startswith(prefix)]
        if expected:
            changes = self.loop.run_until_complete(watch.next())
            assert expected == [
                (c.entry.revision, c.entry.key, c.entry.value, c.deleted) for c in changes
            ]
        watch.close()

    @rule(data=st.data(), prefix=st.sampled_from(["pods/", "jobs/"]))
    def look_back(self, data: st.DataObject, prefix: str) -> None:
        at = data.draw(st.integers(self.compacted, max(self.compacted, self.store.revision)))
        then: dict[str, bytes] = {}
        for revision, key, value, deleted in self.writes:
            if revision <= at and key.startswith(prefix):
                then[key] = value
                if deleted:
                    del then[key]
        entries = self.loop.run_until_complete(self.store.scan_at(prefix, at))
        assert dict(sorted(then.items())) == {e.key: e.value for e in entries}

    @invariant()
    def present(self) -> None:
        if not hasattr(self, "model"):
            return
        for prefix in ("pods/", "jobs/"):
            expected = sorted((k, *v) for k, v in self.model.items() if k.startswith(prefix))
            assert expected == [(e.key, e.revision, e.value) for e in self.store.scan(prefix)]


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=40, stateful_step_count=25)
