"""The verbs against a model that is a dict: objects, conflicts and watch events."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kubekit.request_errors import StatusError
from localkube.apiserver import codec
from localkube.apiserver.http.requests import Call, Route
from localkube.apiserver.resource_registry import BUILTIN, Registry
from localkube.apiserver.store.store import Store
from localkube.apiserver.verbs import Verbs
from localkube.apiserver.views.watch_events import watch_events

MERGE = "application/merge-patch+json"
FINALIZER = "x.io/f"
NAMES = st.sampled_from("ab")
COLORS = st.sampled_from(["red", "blue"])


@dataclass
class Expected:
    """A config map in the model."""

    version: str
    uid: str
    color: str = ""
    data: dict[str, str] = field(default_factory=dict)
    has_finalizer: bool = False
    being_deleted: bool = False

    def state(self) -> tuple[Any, ...]:
        return (
            self.version,
            self.uid,
            self.color,
            self.data,
            self.has_finalizer,
            self.being_deleted,
        )


def state_of(obj: Any) -> tuple[Any, ...]:
    meta = obj["metadata"]
    return (
        meta["resourceVersion"],
        meta["uid"],
        meta.get("labels", {}).get("color", ""),
        obj.get("data", {}),
        FINALIZER in meta.get("finalizers", ()),
        "deletionTimestamp" in meta,
    )


class VerbsMachine(RuleBasedStateMachine):
    """Random writers of config maps, with current and stale preconditions."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.home = tempfile.TemporaryDirectory()
        self.registry = Registry(BUILTIN)
        self.resource = next(r for r in BUILTIN if r.plural == "configmaps")
        self.model: dict[str, Expected] = {}
        self.watched: dict[str, tuple[Any, ...]] = {}
        self.since = 0
        self.open()
        namespaces = next(r for r in BUILTIN if r.plural == "namespaces")
        body = codec.dump({"metadata": {"name": "n"}})
        route = Route("create", "", "v1", "namespaces")
        self.loop.run_until_complete(self.verbs.create(Call(route, namespaces, body=body)))

    def open(self) -> None:
        path = Path(self.home.name) / "objects.db"
        self.store = self.loop.run_until_complete(Store.open(path))
        self.verbs = Verbs(self.store)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.run_until_complete(self.store.close())
            self.loop.close()
            self.home.cleanup()

    def send(
        self, verb: str, name: str = "", body: Any = None, kind: str = "", **query: str
    ) -> tuple[int, Any]:
        route = Route(verb, "", "v1", "configmaps", "n", name)
        data = b"" if body is None else codec.dump(body)
        call = Call(route, self.resource, query, data, kind)
        try:
            answer = self.loop.run_until_complete(getattr(self.verbs, verb)(call))
        except StatusError as error:
            return error.status, error
        return answer.code, msgspec.json.decode(answer.body)

    def learn(self, name: str, obj: Any) -> None:
        version, uid, color, data, has_finalizer, being_deleted = state_of(obj)
        self.model[name] = Expected(version, uid, color, data, has_finalizer, being_deleted)

    # -- writers ---------------------------------------------------------------------------------

    @rule(name=NAMES, color=COLORS, has_finalizer=st.booleans())
    def create(self, name: str, color: str, has_finalizer: bool) -> None:
        meta = {"name": name, "labels": {"color": color}, "finalizers": [FINALIZER] * has_finalizer}
        code, answer = self.send("create", body={"metadata": meta, "data": {"by": "create"}})
        if name in self.model:
            assert code == 409
            return
        assert code == 201
        expected = Expected(answer["metadata"]["resourceVersion"], answer["metadata"]["uid"], color)
        expected.data, expected.has_finalizer = {"by": "create"}, has_finalizer
        assert state_of(answer) == expected.state()
        self.model[name] = expected

    @rule(name=NAMES, color=COLORS, precondition=st.sampled_from(["none", "current", "stale"]))
    def replace(self, name: str, color: str, precondition: str) -> None:
        expected = self.model.get(name)
        meta: dict[str, Any] = {"name": name, "labels": {"color": color}}
        if expected is not None:
            meta["finalizers"] = [FINALIZER] * expected.has_finalizer
            version = {"none": "", "current": expected.version, "stale": "1"}[precondition]
            meta["resourceVersion"] = version
        code, answer = self.send("update", name, {"metadata": meta, "data": {"by": "replace"}})
        if expected is None or precondition == "stale":
            assert code == (404 if expected is None else 409)
            return
        assert code == 200
        expected.color, expected.data = color, {"by": "replace"}
        self._written(expected, answer)

    @rule(name=NAMES, key=st.sampled_from("xy"), value=st.sampled_from(["1", "2", None]))
    def patch(self, name: str, key: str, value: str | None) -> None:
        expected = self.model.get(name)
        code, answer = self.send("patch", name, {"data": {key: value}}, MERGE)
        if expected is None:
            assert code == 404
            return
        assert code == 200
        expected.data = {k: v for k, v in (expected.data | {key: value}).items() if v is not None}
        self._written(expected, answer)

    def _written(self, expected: Expected, answer: Any) -> None:
        version = answer["metadata"]["resourceVersion"]
        assert int(version) >= int(expected.version)
        expected.version = version
        assert state_of(answer) == expected.state()

    @rule(name=NAMES, precondition=st.sampled_from(["none", "current", "stale"]))
    def delete(self, name: str, precondition: str) -> None:
        expected = self.model.get(name)
        body = None
        if expected is not None and precondition != "none":
            version = expected.version if precondition == "current" else "1"
            body = {"preconditions": {"resourceVersion": version, "uid": expected.uid}}
        code, answer = self.send("delete", name, body)
        if expected is None or precondition == "stale":
            assert code == (404 if expected is None else 409)
            return
        assert code == 200
        if expected.has_finalizer:
            expected.being_deleted = True
            self._written(expected, answer)
        else:
            assert answer["status"] == "Success"
            del self.model[name]

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        expected = self.model.get(name)
        code, answer = self.send("patch", name, {"metadata": {"finalizers": None}}, MERGE)
        if expected is None:
            assert code == 404
            return
        assert code == 200
        expected.has_finalizer = False
        if expected.being_deleted:
            del self.model[name]
        else:
            self._written(expected, answer)

    @rule(color=st.sampled_from(["red", "blue"]))
    def sweep(self, color: str) -> None:
        code, _ = self.send("deletecollection", labelSelector=f"color={color}")
        assert code == 200
        for name, expected in list(self.model.items()):
            if expected.color == color and not expected.has_finalizer:
                del self.model[name]
            elif expected.color == color:
                _, obj = self.send("get", name)
                expected.being_deleted, expected.version = (
                    True,
                    obj["metadata"]["resourceVersion"],
                )

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.open()

    # -- readers ---------------------------------------------------------------------------------

    @invariant()
    def present(self) -> None:
        if not hasattr(self, "model"):
            return
        expected = [(n, k.state()) for n, k in sorted(self.model.items())]
        _, answer = self.send("list")
        assert [(o["metadata"]["name"], state_of(o)) for o in answer["items"]] == expected

    @rule(color=st.sampled_from(["red", "blue"]), limit=st.integers(1, 3))
    def pages(self, color: str, limit: int) -> None:
        names, token = [], ""
        while True:
            query = {"labelSelector": f"color={color}", "limit": str(limit), "continue": token}
            _, page = self.send("list", **query)
            names += [o["metadata"]["name"] for o in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert names == sorted(n for n, k in self.model.items() if k.color == color)

    @rule()
    def follow(self) -> None:
        """A watcher of one color that resumes from its last revision knows all those objects."""
        route = Route("watch", "", "v1", "configmaps", "n")
        query = {"resourceVersion": str(self.since or ""), "labelSelector": "color=red"}
        call = Call(route, self.resource, query)
        # An object that is created last and deleted afterwards tells the watcher when to stop.
        self.send("create", body={"metadata": {"name": "last", "labels": {"color": "red"}}})

        async def events() -> list[Any]:
            lines, events = watch_events(self.store, call, lambda value: value), []
            async for piece in lines:
                events += [msgspec.json.decode(line) for line in piece.splitlines()]
                if events and events[-1]["object"]["metadata"]["name"] == "last":
                    break
            await lines.aclose()
            return events

        for event in self.loop.run_until_complete(events()):
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                del self.watched[name]
            else:
                assert (event["type"] == "MODIFIED") == (name in self.watched)
                self.watched[name] = state_of(event["object"])
        assert self.watched.pop("last")
        self.send("delete", "last")
        self.since = self.store.revision
        assert self.watched == {n: k.state() for n, k in self.model.items() if k.color == "red"}


TestVerbsMachine = VerbsMachine.TestCase
TestVerbsMachine.settings = settings(max_examples=80, stateful_step_count=50)
