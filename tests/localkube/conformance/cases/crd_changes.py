"""Custom objects whose definition changed after they were stored: another version, stricter."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.crds import (
    CRDS,
    GROUP,
    NAME,
    OPEN,
    THINGS,
    definition,
    of,
    on_new_kind,
    thing,
    version,
)
from tests.localkube.conformance.cases.steps import answered, delete, get, patch, post, put
from tests.localkube.conformance.transcript import JSON_PATCH, MERGE, Case, Step

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCHEMA = "/spec/versions/0/schema/openAPIV3Schema"


def stored_in(*names: str) -> Any:
    return lambda reply: reply.body["status"]["storedVersions"] == list(names)


def in_version(name: str) -> str:
    return THINGS.replace("/v1/", f"/{name}/")


def moved(old: str, new: str, old_schema: dict[str, Any], new_schema: dict[str, Any]) -> Case:
    """Objects from before and after their kind's storage version was changed, in both versions."""
    was, now = in_version(old), in_version(new)
    return Case(
        f"objects stored in {old} when {new} is the storage version",
        [
            post(
                CRDS,
                definition(version(old, old_schema), version(new, new_schema, storage=False)),
            ),
            get(was, until=answered(200)),
            get(now, until=answered(200)),
            post(was, thing("a", old, x="1")),
            post(now, thing("b", new, x="1")),
            post(now, thing("c", new, x="1")),
            patch(
                f"{CRDS}/{NAME}",
                [
                    {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                    {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
                ],
                JSON_PATCH,
            ),
            get(f"{CRDS}/{NAME}", until=stored_in(old, new)),
            post(was, thing("d", old, x="1"), until=answered(201)),
            *(get(f"{path}/{name}") for path in (was, now) for name in "ad"),
            get(was),
            get(now),
            get(now, accept=TABLE),
            get(f"{now}?watch=1&timeoutSeconds=1&resourceVersion=0"),
            put(
                f"{now}/a",
                {
                    **thing("a", new, x="2"),
                    "metadata": {"name": "a", "resourceVersion": "$rv.3"},
                },
            ),
            patch(f"{now}/b", {"spec": {"x": "3"}}),
            patch(f"{was}/b", {"spec": {"x": "4"}}),
            patch(f"{now}/c", {"metadata": {"labels": None}}),
            Step("PUT", f"{now}/d?dryRun=All", {
                "kind": "Thing", "spec": {"x": "5"}, "apiVersion": f"{GROUP}/{new}",
                "metadata": {"name": "d", "resourceVersion": "$rv.8"}}),
            get(f"{now}?watch=1&timeoutSeconds=1&resourceVersion=$rv.8"),
            delete(f"{now}/b"),
            delete(f"{was}/c"),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("crd-at-once", "column-descriptions"),
    )  # fmt: skip


MOVED = [
    moved("v1alpha1", "v1", OPEN, OPEN),
    moved("v1", "v2", OPEN, OPEN),
    moved("v1beta1", "v1", of("x", "old"), of("x", "new")),
]


def spec(**properties: Any) -> dict[str, Any]:
    status = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}, "status": status},
    }


def tightened(*steps: Any, name: str, before: dict[str, Any], after: dict[str, Any]) -> Case:
    """A kind whose schema grew stricter after `a` was created, and writes of `a` after that."""
    first, *rest = steps
    return on_new_kind(
        first,
        patch(
            f"{CRDS}/{NAME}",
            [{"op": "replace", "path": SCHEMA, "value": spec(**after, seen={"type": "boolean"})}],
            JSON_PATCH,
        ),
        # The new schema is in force when the server warns of a field that it does not have.
        Step("PATCH", f"{THINGS}/{first.body['metadata']['name']}?dryRun=All",
             {"spec": {"seen": "no"}}, MERGE, until=answered(422)),
        *rest,
        name=name,
        differs=("wording", "causes"),
        schema=spec(**before),
        subresources={"status": {}},
    )  # fmt: skip


def change(**fields: Any) -> Step:
    return patch(f"{THINGS}/a", {"spec": fields})


NUMBER = {"type": "integer"}
SMALL = {"type": "integer", "maximum": 10}
TEXT = {"type": "string"}
NAMED = {"type": "object", "properties": {"name": TEXT, "n": NUMBER}}
LIMITED = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "default": "x"}, "n": SMALL},
}

RATCHETED = [
    tightened(
        post(
            THINGS,
            {**thing("a", n=50), "metadata": {"name": "a", "finalizers": ["a.example.com/b"]}},
        ),
        post(THINGS, thing("b", n=50)),
        delete(f"{THINGS}/a"),
        patch(f"{THINGS}/a", {"metadata": {"finalizers": None}}),
        get(f"{THINGS}/a"),
        name="an object that no longer fits its schema can lose its finalizers",
        before={"n": NUMBER},
        after={"n": SMALL},
    ),
    tightened(
        post(THINGS, thing("a", n=50, text="long", list=[1, 2, 3], deep={"n": 50})),
        patch(f"{THINGS}/a", {"metadata": {"labels": {"x": "y"}}}),
        patch(f"{THINGS}/a/status", {"status": {"n": 1}}),
        patch(f"{THINGS}/a/status", {"status": {"n": "x"}}),
        change(m=1),
        change(n=60),
        change(list=[1, 2, 3, 4]),
        change(list=[3, 2, 1]),
        change(deep={"m": 1}),
        change(deep={"n": 51}),
        put(
            f"{THINGS}/a",
            {
                **thing("a", n=50, text="long", list=[1, 2, 3], m=2),
                "metadata": {"name": "a", "resourceVersion": "$rv.12"},
            },
        ),
        change(n=9),
        change(n=50),
        change(text="no"),
        get(f"{THINGS}/a"),
        name="values that were invalid before may stay",
        before={
            "n": NUMBER,
            "m": NUMBER,
            "text": TEXT,
            "list": {"type": "array", "items": NUMBER},
            "deep": {"type": "object", "properties": {"n": NUMBER, "m": NUMBER}},
        },
        after={
            "n": SMALL,
            "m": NUMBER,
            "text": {"type": "string", "maxLength": 2},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "integer", "maximum": 2}},
            "deep": {"type": "object", "properties": {"n": SMALL, "m": NUMBER}},
        },
    ),
    tightened(
        post(THINGS, thing("a", map={"k": 50}, deep={"x": 1}, either=5)),
        change(map={"l": 1}),
        change(map={"m": 50}),
        change(other="x"),
        change(deep={"y": 1}),
        change(deep={"must": "x"}),
        change(either=6),
        change(either="x"),
        name="missing fields of maps, and fields that one of several schemas allows",
        before={
            "map": {"type": "object", "additionalProperties": NUMBER},
            "deep": {"type": "object", "properties": {"x": NUMBER, "y": NUMBER, "must": TEXT}},
            "either": {"x-kubernetes-int-or-string": True},
            "other": TEXT,
        },
        after={
            "map": {"type": "object", "additionalProperties": SMALL},
            "deep": {
                "type": "object",
                "required": ["must"],
                "properties": {"x": NUMBER, "y": NUMBER, "must": TEXT},
            },
            "either": {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "not": {"enum": [5]},
            },
            "other": TEXT,
        },
    ),
    tightened(
        post(
            THINGS,
            thing("a", keyed=[{"name": "x", "n": 50}], plain=[{"name": "x", "n": 50}], set=[50]),
        ),
        change(keyed=[{"name": "y", "n": 1}, {"name": "x", "n": 50}]),
        change(keyed=[{"name": "x", "n": 51}]),
        change(keyed=[{"name": "z", "n": 50}]),
        change(plain=[{"name": "x", "n": 50}, {"name": "y", "n": 1}]),
        change(set=[50, 1]),
        name="items of lists that were invalid before may stay",
        before={
            "keyed": {"type": "array", "items": NAMED},
            "plain": {"type": "array", "items": NAMED},
            "set": {"type": "array", "items": NUMBER},
        },
        after={
            "keyed": {
                "type": "array",
                "items": LIMITED,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "plain": {"type": "array", "items": LIMITED},
            "set": {"type": "array", "items": SMALL, "x-kubernetes-list-type": "set"},
        },
    ),
]

CASES = [*MOVED, *RATCHETED]
