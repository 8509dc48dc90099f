"""The verbs against a model that is a dict: objects, conflicts and watch events."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.errors import StatusError
from muster.local.apiserver import codec
from muster.local.apiserver.http.requests import Call, Route
from muster.local.apiserver.kinds.builtin import BUILTIN
from muster.local.apiserver.registry import Registry
from muster.local.apiserver.store.store import Store
from muster.local.apiserver.verbs import Verbs
from muster.local.apiserver.views.watch_events import watch_events

MERGE = "application/merge-patch+json"
FINALIZER = "x.io/f"
NAMES = st.sampled_from("ab")
COLORS = st.sampled_from(["red", "blue"])


@dataclass
class Known:
    """A config map as the model has it."""

    version: str
    uid: str
    color: str = ""
    data: dict[str, str] = field(default_factory=dict)
    held: bool = False
    """It has a finalizer."""
    doomed: bool = False
    """It was deleted and waits for its finalizer."""

    def shown(self) -> tuple[Any, ...]:
        return (self.version, self.uid, self.color, self.data, self.held, self.doomed)


def seen(obj: Any) -> tuple[Any, ...]:
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
    """Random writers of config maps, with true and false preconditions."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.home = tempfile.TemporaryDirectory()
        self.registry = Registry(BUILTIN)
        self.resource = next(r for r in BUILTIN if r.plural == "configmaps")
        self.model: dict[str, Known] = {}
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

    def ask(
        self, verb: str, name: str = "", body: Any = None, kind: str = "", **query: str
    ) -> tuple[int, Any]:
        route = Route(verb, "", "v1", "configmaps", "n", name)
        data = b"" if body is None else codec.dump(body)
        call = Call(route, self.resource, query, data, kind)
        try:
            answer = self.loop.run_until_complete(getattr(self.verbs, verb)(call))
        except StatusError as refusal:
            return refusal.status, refusal
        return answer.code, msgspec.json.decode(answer.body)

    def learn(self, name: str, obj: Any) -> None:
        version, uid, color, data, held, doomed = seen(obj)
        self.model[name] = Known(version, uid, color, data, held, doomed)

    # -- writers ---------------------------------------------------------------------------------

    @rule(name=NAMES, color=COLORS, held=st.booleans())
    def create(self, name: str, color: str, held: bool) -> None:
        meta = {"name": name, "labels": {"color": color}, "finalizers": [FINALIZER] * held}
        code, answer = self.ask("create", body={"metadata": meta, "data": {"by": "create"}})
        if name in self.model:
            assert code == 409
            return
        assert code == 201
        expected = Known(answer["metadata"]["resourceVersion"], answer["metadata"]["uid"], color)
        expected.data, expected.held = {"by": "create"}, held
        assert seen(answer) == expected.shown()
        self.model[name] = expected

    @rule(name=NAMES, color=COLORS, claim=st.sampled_from(["none", "right", "stale"]))
    def replace(self, name: str, color: str, claim: str) -> None:
        known = self.model.get(name)
        meta: dict[str, Any] = {"name": name, "labels": {"color": color}}
        if known is not None:
            meta["finalizers"] = [FINALIZER] * known.held
            version = {"none": "", "right": known.version, "stale": "1"}[claim]
            meta["resourceVersion"] = version
        code, answer = self.ask("update", name, {"metadata": meta, "data": {"by": "replace"}})
        if known is None or claim == "stale":
            assert code == (404 if known is None else 409)
            return
        assert code == 200
        known.color, known.data = color, {"by": "replace"}
        self._written(known, answer)

    @rule(name=NAMES, key=st.sampled_from("xy"), value=st.sampled_from(["1", "2", None]))
    def patch(self, name: str, key: str, value: str | None) -> None:
        known = self.model.get(name)
        code, answer = self.ask("patch", name, {"data": {key: value}}, MERGE)
        if known is None:
            assert code == 404
            return
        assert code == 200
        known.data = {k: v for k, v in (known.data | {key: value}).items() if v is not None}
        self._written(known, answer)

    def _written(self, known: Known, answer: Any) -> None:
        version = answer["metadata"]["resourceVersion"]
        assert int(version) >= int(known.version)
        known.version = version
        assert seen(answer) == known.shown()

    @rule(name=NAMES, claim=st.sampled_from(["none", "right", "stale"]))
    def delete(self, name: str, claim: str) -> None:
        known = self.model.get(name)
        body = None
        if known is not None and claim != "none":
            version = known.version if claim == "right" else "1"
            body = {"preconditions": {"resourceVersion": version, "uid": known.uid}}
        code, answer = self.ask("delete", name, body)
        if known is None or claim == "stale":
            assert code == (404 if known is None else 409)
            return
        assert code == 200
        if known.held:
            known.doomed = True
            self._written(known, answer)
        else:
            assert answer["status"] == "Success"
            del self.model[name]

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        known = self.model.get(name)
        code, answer = self.ask("patch", name, {"metadata": {"finalizers": None}}, MERGE)
        if known is None:
            assert code == 404
            return
        assert code == 200
        known.held = False
        if known.doomed:
            del self.model[name]
        else:
            self._written(known, answer)

    @rule(color=st.sampled_from(["red", "blue"]))
    def sweep(self, color: str) -> None:
        code, _ = self.ask("deletecollection", labelSelector=f"color={color}")
        assert code == 200
        for name, known in list(self.model.items()):
            if known.color == color and not known.held:
                del self.model[name]
            elif known.color == color:
                _, obj = self.ask("get", name)
                known.doomed, known.version = True, obj["metadata"]["resourceVersion"]

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.open()

    # -- readers ---------------------------------------------------------------------------------

    @invariant()
    def present(self) -> None:
        if not hasattr(self, "model"):
            return
        expected = [(n, k.shown()) for n, k in sorted(self.model.items())]
        _, answer = self.ask("list")
        assert [(o["metadata"]["name"], seen(o)) for o in answer["items"]] == expected

    @rule(color=st.sampled_from(["red", "blue"]), limit=st.integers(1, 3))
    def pages(self, color: str, limit: int) -> None:
        names, token = [], ""
        while True:
            query = {"labelSelector": f"color={color}", "limit": str(limit), "continue": token}
            _, page = self.ask("list", **query)
            names += [o["metadata"]["name"] for o in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert names == sorted(n for n, k in self.model.items() if k.color == color)

    @rule()
    def follow(self) -> None:
        """A watcher of one color that resumes where it was knows exactly what there is of it."""
        route = Route("watch", "", "v1", "configmaps", "n")
        query = {"resourceVersion": str(self.since or ""), "labelSelector": "color=red"}
        call = Call(route, self.resource, query)
        # The last thing it sees is one that comes and goes, so that it knows when to stop.
        self.ask("create", body={"metadata": {"name": "last", "labels": {"color": "red"}}})

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
                self.watched[name] = seen(event["object"])
        assert self.watched.pop("last")
        self.ask("delete", "last")
        self.since = self.store.revision
        assert self.watched == {n: k.shown() for n, k in self.model.items() if k.color == "red"}


TestVerbsMachine = VerbsMachine.TestCase
TestVerbsMachine.settings = settings(max_examples=80, stateful_step_count=50)
