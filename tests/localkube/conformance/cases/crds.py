"""Custom kinds: definitions, several versions, schemas, defaults, pruning, scale."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import answered, delete, get, patch, post, put
from tests.localkube.conformance.transcript import JSON_PATCH, STRATEGIC, Case, Reply

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "$ns.example.com"
NAME = f"things.{GROUP}"
THINGS = f"/apis/{GROUP}/v1/namespaces/$ns/things"
OLD = THINGS.replace("/v1/", "/v1beta1/")

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
STRICT: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "small": {"type": "integer", "format": "int32"},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
                "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
                "port": {"x-kubernetes-int-or-string": True},
                "on": {"type": "boolean", "nullable": True},
                "list": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "weight": {"type": "integer", "default": 5},
                        },
                    },
                },
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "free": OPEN,
                "nested": {
                    "type": "object",
                    "default": {},
                    "properties": {"deep": {"type": "string", "default": "yes"}},
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


def definition(*versions: dict[str, Any], scope: str = "Namespaced") -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": list(versions),
        },
    }


def version(
    name: str = "v1", schema: dict[str, Any] | None = None, *, storage: bool = True, **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema or STRICT},
        **more,
    }


def thing(name: str = "a", called: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{called}",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


def of(*names: str) -> dict[str, Any]:
    """A schema that knows these fields of the spec and no others."""
    properties = {name: {"type": "string"} for name in names}
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }


def established(reply: Reply) -> bool:
    conditions = reply.body["status"].get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def second() -> dict[str, Any]:
    """A definition of a kind of the same name and group, with another plural."""
    body = definition(version())
    body["metadata"]["name"] = f"items.{GROUP}"
    body["spec"]["names"] = {"plural": "items", "kind": "Thing"}
    return body


def judged(reply: Reply) -> bool:
    return bool(reply.body["status"].get("conditions"))


ITEMS = THINGS.replace("things", "items")
RIVALS = [
    Case(
        "a second definition of a kind",
        [
            post(CRDS, definition(version())),
            get(f"{CRDS}/{NAME}", until=established),
            get(THINGS, until=answered(200)),
            post(CRDS, second()),
            get(f"{CRDS}/items.{GROUP}", until=judged),
            get(ITEMS),
            get(THINGS),
            delete(f"{CRDS}/{NAME}"),
            get(f"{CRDS}/items.{GROUP}", until=established),
            get(ITEMS, until=answered(200)),
            delete(f"{CRDS}/items.{GROUP}"),
            get(ITEMS, until=answered(404)),
        ],
        ("crd-at-once",),
    ),
]

LIFE = [
    Case(
        "a definition through its life",
        [
            get(THINGS),
            post(CRDS, definition(version())),
            get(THINGS, until=answered(200)),
            get(f"{CRDS}/{NAME}", until=established),
            post(THINGS, thing(size=1), until=answered(201)),
            post(CRDS, definition(version())),
            patch(f"{CRDS}/{NAME}", {"metadata": {"labels": {"x": "y"}}}),
            get(f"/apis/{GROUP}", until=answered(200)),
            get(f"/apis/{GROUP}/v1", until=lambda reply: "things" in str(reply.body)),
            delete(f"{CRDS}/{NAME}"),
            get(THINGS, until=answered(404)),
        ],
        ("crd-at-once",),
    ),
    Case(
        "invalid definitions",
        [
            post(CRDS, {"metadata": {"name": NAME}, "spec": {}}),
            post(CRDS, {**definition(version()), "metadata": {"name": "wrong"}}),
            post(CRDS, definition(version(storage=False))),
            post(CRDS, definition(version(), version("v2"))),
        ],
        ("wording", "causes"),
    ),
]

VERSIONS = [
    Case(
        "two versions without conversion",
        [
            post(
                CRDS,
                definition(
                    version("v1", of("both", "new")),
                    version("v1beta1", of("both", "old"), storage=False),
                ),
            ),
            post(THINGS, thing(both="1", new="2", old="3"), until=answered(201)),
            get(f"{THINGS}/a"),
            get(f"{OLD}/a"),
            get(OLD),
            post(OLD, thing("b", "v1beta1", both="1", new="2", old="3"), until=answered(201)),
            get(f"{THINGS}/b"),
            get(f"{OLD}/b"),
            patch(f"{OLD}/a", {"spec": {"both": "4"}}),
            get(f"{THINGS}/a"),
            patch(f"{THINGS}/b", {"spec": {"new": "5"}}),
            get(f"{OLD}/b"),
            get(f"{OLD}?watch=1&resourceVersion=$rv.1&timeoutSeconds=1"),
            put(f"{OLD}/a", {**thing("a", "v1beta1", old="6"), "metadata": {
                "name": "a", "resourceVersion": "$rv.8"}}),
            get(f"{THINGS}/a"),
            post(THINGS, thing("c", "v1beta1")),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("crd-at-once", "managed-fields"),
    ),
    Case(
        "a version that is deprecated and one that is not served",
        [
            post(
                CRDS,
                definition(
                    version("v1", OPEN),
                    version(
                        "v1beta1",
                        OPEN,
                        storage=False,
                        deprecated=True,
                        deprecationWarning="use v1",
                    ),
                    {**version("v1alpha1", OPEN, storage=False), "served": False},
                ),
            ),
            post(OLD, thing("a", "v1beta1"), until=answered(201)),
            get(f"{OLD}/a"),
            get(f"{OLD}/none"),
            get(f"{THINGS}/a".replace("/v1/", "/v1alpha1/")),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("wording", "crd-at-once"),
    ),
]  # fmt: skip


def on_new_kind(*steps: Any, name: str, differs: tuple[str, ...] = (), **more: Any) -> Case:
    """A case on a fresh kind of the strict schema."""
    begin = [post(CRDS, definition(version(**more))), get(THINGS, until=answered(200))]
    return Case(name, [*begin, *steps, delete(f"{CRDS}/{NAME}")], ("crd-at-once", *differs))


MISFITS: tuple[dict[str, Any], ...] = (
    {},
    {"size": 0},
    {"size": 11},
    {"size": "1"},
    {"size": 1, "color": "green"},
    {"size": 1, "code": "A"},
    {"size": 1, "code": "abcde"},
    {"size": 1, "ratio": 0},
    {"size": 1, "port": 1.5},
    {"size": 1, "port": True},
    {"size": 1, "on": "yes"},
    {"size": 1, "list": []},
    {"size": 1, "list": [{"name": "a"}] * 3},
    {"size": 1, "list": [{}]},
    {"size": 1, "list": "a"},
    {"size": 1, "map": {"k": "v"}},
)

SCHEMAS = [
    on_new_kind(
        post(THINGS, thing(size=3), until=answered(201)),
        post(THINGS, thing("b", size=3, list=[{"name": "x"}], map={"k": 1}, free={"any": [1]})),
        post(THINGS, thing("c", size=3, unknown=1, list=[{"name": "x", "unknown": 2}])),
        post(f"{THINGS}?fieldValidation=Strict", thing("d", size=3, unknown=1)),
        post(f"{THINGS}?fieldValidation=Ignore", thing("e", size=3, unknown=1)),
        post(THINGS, thing("f", size=3, on=None, color=None, code=None)),
        post(THINGS, thing("g", size=3, port="http")),
        post(THINGS, thing("h", size=3, port=80, ratio=0.5)),
        post(THINGS, {**thing("i", size=3), "unknown": {"top": 1}}),
        post(THINGS, {**thing("j", size=3), "status": {"replicas": 1, "unknown": 1}}),
        patch(f"{THINGS}/a", {"spec": {"unknown": 1}}),
        patch(f"{THINGS}/a", {"spec": {"color": None}}),
        patch(f"{THINGS}/a?fieldValidation=Strict", {"spec": {"unknown": 1}}),
        patch(f"{THINGS}/a", {"spec": {"size": 4}}, STRATEGIC),
        get(THINGS),
        name="defaults and pruning",
        differs=("wording",),
    ),
    on_new_kind(
        *(post(THINGS, thing(f"t{i}", **spec)) for i, spec in enumerate(MISFITS)),
        post(THINGS, {**thing(size=1), "spec": None}),
        post(THINGS, {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "x"}}),
        post(THINGS, {"kind": "Thing", "metadata": {"name": "x"}, "spec": {"size": 1}}),
        post(THINGS, {**thing(size=1), "kind": "Other"}),
        name="objects that do not fit their schema",
    ),
    on_new_kind(
        post(THINGS, thing(size=1, small=3_000_000_000), until=answered(422)),
        post(THINGS, thing(size=1, small=1.5)),
        post(THINGS, thing(size=1.5)),
        post(THINGS, thing(size=0, color="green", code="A")),
        post(THINGS, {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "x"}}),
        name="objects that do not fit their schema, with other wording",
        differs=("wording", "causes"),
    ),
    on_new_kind(
        post(THINGS, thing(size=1), until=answered(201)),
        patch(f"{THINGS}/a", {"spec": {"size": 0}}),
        patch(f"{THINGS}/a", [{"op": "remove", "path": "/spec/size"}], JSON_PATCH),
        patch(f"{THINGS}/a", [{"op": "add", "path": "/spec/list", "value": [{}]}], JSON_PATCH),
        put(
            f"{THINGS}/a", {**thing(size=2), "metadata": {"name": "a", "resourceVersion": "$rv.2"}}
        ),
        get(f"{THINGS}/a"),
        name="changes that do not fit the schema",
    ),
]

CHANGED = [
    on_new_kind(
        post(THINGS, thing("a", size=1, free={"x": 1}), until=answered(201)),
        patch(
            f"{CRDS}/{NAME}",
            [
                {
                    "op": "replace",
                    "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties",
                    "value": {"size": {"type": "integer"}, "new": OPEN | {"default": {"is": "so"}}},
                }
            ],
            JSON_PATCH,
        ),
        get(f"{THINGS}/a", until=lambda reply: "new" in reply.body["spec"]),
        get(THINGS),
        patch(f"{THINGS}/a", {"spec": {"size": 2}}),
        name="a schema that is changed under its objects",
    ),
    Case("an established definition", [get(f"{CRDS}/tfjobs.kubeflow.org")], ("managed-fields",)),
]


CASES = [*LIFE, *RIVALS, *VERSIONS, *SCHEMAS, *CHANGED]
