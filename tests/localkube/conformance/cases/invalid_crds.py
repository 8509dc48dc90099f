"""Invalid definitions, and objects that their schemas reject."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.crds import (
    CRDS,
    NAME,
    OPEN,
    THINGS,
    definition,
    established,
    thing,
    version,
)
from tests.localkube.conformance.cases.steps import answered, delete, get, patch, post
from tests.localkube.conformance.transcript import JSON_PATCH, Case


def field(**schema: Any) -> dict[str, Any]:
    """A definition whose spec has one field, of this schema."""
    spec = {"type": "object", "properties": {"f": schema}}
    return definition(version(schema={"type": "object", "properties": {"spec": spec}}))


WRONG_WITHIN = {"type": "array", "items": {"type": "array", "items": {"type": 5}}}
ITEMS_OF_FIELD = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/f/items"


def with_spec(**more: Any) -> dict[str, Any]:
    crd = definition(version())
    return crd | {"spec": crd["spec"] | more}


def column(**more: Any) -> dict[str, Any]:
    shown = {"name": "a", "type": "string", "jsonPath": ".spec.a", **more}
    return definition(version(additionalPrinterColumns=[shown]))


def grouped(group: str, **annotations: str) -> dict[str, Any]:
    crd = with_spec(group=group)
    return crd | {"metadata": {"name": f"things.{group}", "annotations": annotations}}


RULES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "set": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "v": {"type": "string"}},
                    },
                },
                "when": {"type": "string", "format": "date-time"},
                "count": {"type": "integer"},
                "greek": {"type": "string", "pattern": r"^\p{Greek}+$"},
                "posix": {"type": "string", "pattern": "^[[:alpha:]]+$"},
                "ends": {"type": "string", "pattern": "^a$"},
                "slow": {"type": "string", "pattern": "^(a+)+$"},
                "pair": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
                "any": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
                "not": {"type": "string", "not": {"enum": ["no"]}},
                "times": {"type": "integer", "multipleOf": 3},
                "few": {"type": "object", "additionalProperties": {"type": "string"},
                        "maxProperties": 1},
            },
        }
    },
}  # fmt: skip

CASES = [
    Case(
        "definitions with mistakes",
        [
            post(CRDS, definition(version(), version(storage=False))),
            post(CRDS, definition(version("V_1"))),
            post(CRDS, definition({"name": "v1", "served": True, "storage": True})),
            post(CRDS, field()),
            post(CRDS, field(type="blob")),
            post(CRDS, field(type="string", pattern="(")),
            post(CRDS, field(type="integer", default="a")),
            post(CRDS, field(type="string", default="a", pattern="b")),
            post(CRDS, field(type="array")),
            post(CRDS, definition(version(), scope="Foo")),
            post(CRDS, column(type="blob")),
            post(CRDS, column(jsonPath="a[[")),
            post(CRDS, column(name="")),
            post(CRDS, with_spec(conversion={"strategy": "Foo"})),
            post(CRDS, with_spec(conversion={"strategy": "Webhook"})),
            post(CRDS, grouped("$ns.k8s.io")),
            post(CRDS, grouped("$ns.k8s.io", **{"api-approved.kubernetes.io": "because"})),
            post(CRDS, with_spec(names={"plural": "things", "kind": "no_thing"})),
            post(CRDS, with_spec(names={"plural": "Things", "kind": "Thing"})),
            post(CRDS, with_spec(preserveUnknownFields=True)),
            post(CRDS, definition(version(schema={"type": "string"}))),
            post(CRDS, definition(version(schema={"properties": {}}))),
            get(f"{CRDS}/{NAME}"),
        ],
        ("wording", "causes"),
    ),
    Case(
        "a deprecated version",
        [
            post(
                CRDS,
                definition(
                    version(schema=OPEN),
                    version("v1beta1", OPEN, storage=False, deprecated=True),
                    version("v2", OPEN, storage=False),
                    version("v3", OPEN, storage=False, deprecated=True),
                ),
            ),
            get(THINGS, until=answered(200)),
            get(THINGS.replace("/v1/", "/v1beta1/"), until=answered(200)),
            get(THINGS.replace("/v1/", "/v3/"), until=answered(200)),
        ],
        ("crd-at-once",),
    ),
    Case(
        "stored versions",
        [
            post(CRDS, definition(version(), version("v2", storage=False))),
            get(f"{CRDS}/{NAME}", until=established),
            patch(
                f"{CRDS}/{NAME}",
                {"spec": {"versions": [version("v2")]}},
            ),
        ],
        ("crd-at-once",),
    ),
    Case(
        "schemas within schemas of the wrong type",
        [
            post(CRDS, field(type="array", items={"type": "string", "pattern": -1})),
            post(CRDS, field(type="array", items={"type": "object", "properties": "x"})),
            post(CRDS, field(type="array", items="x")),
            post(CRDS, field(type="array", items=True)),
            post(CRDS, field(type="array", items=[{"type": "string"}])),
            post(CRDS, field(type="array", items=[{"type": 5}])),
            post(CRDS, field(type="object", additionalProperties={"type": 5})),
            post(CRDS, field(type="object", additionalProperties="x")),
            post(CRDS, field(type="object", additionalProperties=5)),
            post(CRDS, field(type="object", additionalProperties=WRONG_WITHIN)),
            post(CRDS, field(type="object", properties={"a": WRONG_WITHIN})),
            post(CRDS, field(type="object", allOf=[{"properties": {"a": WRONG_WITHIN}}])),
            post(CRDS, field(type="array", items={"type": "string", "unknown": -1})),
            get(f"{CRDS}/{NAME}", until=established),
            patch(
                f"{CRDS}/{NAME}",
                [{"op": "add", "path": ITEMS_OF_FIELD, "value": {"type": "string", "enum": 5}}],
                JSON_PATCH,
            ),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("wording", "causes", "crd-at-once"),
    ),
    Case(
        "values that schemas reject",
        [
            post(CRDS, definition(version(schema=RULES))),
            get(THINGS, until=answered(200)),
            post(THINGS, thing("z"), until=answered(201)),
            post(THINGS, thing(set=["a", "b", "a"])),
            post(THINGS, thing(map=[{"name": "a"}, {"name": "a", "v": "b"}])),
            post(THINGS, thing(when="yesterday")),
            post(THINGS, thing("b", when="2026-01-01T00:00:00Z")),
            post(THINGS, thing("c", count=5.0)),
            post(THINGS, thing("e", greek="αβγ")),
            post(THINGS, thing("f", greek="abc")),
            post(THINGS, thing("g", posix="abc")),
            post(THINGS, thing("h", ends="a\n")),
            post(THINGS, thing("i", slow="a" * 60 + "!")),
            post(THINGS, thing("j", pair={"a": "1"})),
            post(THINGS, thing("k", pair={"a": "1", "b": "2"})),
            post(THINGS, thing("l", pair={})),
            post(THINGS, thing("m", any={})),
            post(THINGS, thing("n", any={"a": "1", "b": "2"})),
            post(THINGS, thing("o", **{"not": "no"})),
            post(THINGS, thing("p", times=4)),
            post(THINGS, thing("q", few={"a": "1", "b": "2"})),
        ],
        ("crd-at-once",),
    ),
    Case(
        "objects within objects",
        [
            post(
                CRDS,
                definition(
                    version(
                        schema={
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {
                                        "pod": {**OPEN, "x-kubernetes-embedded-resource": True}
                                    },
                                }
                            },
                        }
                    )
                ),
            ),
            get(THINGS, until=answered(200)),
            post(THINGS, thing("z"), until=answered(201)),
            post(THINGS, thing("a", pod={"apiVersion": "v1", "kind": "Pod", "metadata": {}})),
            post(THINGS, thing("b", pod={"kind": "Pod"})),
            post(THINGS, thing("c", pod={})),
            post(THINGS, thing("d", pod={"apiVersion": "v1", "kind": "P", "metadata": {"x": 1}})),
        ],
        ("crd-at-once",),
    ),
]
