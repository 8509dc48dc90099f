"""Rules in definitions (`x-kubernetes-validations`): which compile, and whom they reject."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases import crds
from tests.localkube.conformance.cases.crds import CRDS, NAME, THINGS, definition, thing, version
from tests.localkube.conformance.cases.steps import delete, get, patch, post
from tests.localkube.conformance.transcript import MERGE, Case

TEXT, NUMBER = {"type": "string", "maxLength": 64}, {"type": "integer"}
FEW = {"maxItems": 5}


def schema(spec: dict[str, Any], *rules: Any, root: Any = ()) -> dict[str, Any]:
    """A schema whose spec has these fields and rules."""
    part: dict[str, Any] = {"type": "object", "properties": spec}
    if rules:
        part["x-kubernetes-validations"] = [as_rule(rule) for rule in rules]
    whole: dict[str, Any] = {"type": "object", "properties": {"spec": part}}
    if root:
        whole["x-kubernetes-validations"] = [as_rule(rule) for rule in root]
    return whole


def as_rule(rule: Any) -> dict[str, Any]:
    return {"rule": rule} if isinstance(rule, str) else rule


def on_new_kind(name: str, of: dict[str, Any], *steps: Any) -> Case:
    """A case on a kind of this schema. Go's maps have no order, and so have their causes none."""
    return crds.on_new_kind(*steps, name=name, schema=of)


FIELDS: dict[str, Any] = {
    "a": NUMBER,
    "b": NUMBER,
    "name": TEXT,
    "ratio": {"type": "number"},
    "port": {"x-kubernetes-int-or-string": True},
    "on": {"type": "boolean"},
    "when": {"type": "string", "format": "date-time"},
    "wait": {"type": "string", "format": "duration"},
    "data": {"type": "string", "format": "byte", "maxLength": 64},
    "list": {"type": "array", "items": NUMBER, **FEW},
    "names": {"type": "array", "items": TEXT, **FEW},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", **FEW},
    "map": {"type": "object", "additionalProperties": TEXT, "maxProperties": 5},
    "a-b": TEXT,
    "namespace": TEXT,
    "inner": {"type": "object", "properties": {"x": NUMBER, "y": TEXT}},
}


def judged(name: str, rules: Any, *specs: dict[str, Any], root: Any = ()) -> Case:
    """Objects with these specs, under these rules."""
    steps = [post(THINGS, thing(f"t{i}") | {"spec": spec}) for i, spec in enumerate(specs)]
    return on_new_kind(f"rules: {name}", schema(FIELDS, *rules, root=root), *steps)


def changed(name: str, rules: Any, before: dict[str, Any], *changes: dict[str, Any]) -> Case:
    steps = [post(THINGS, thing("t") | {"spec": before})]
    steps += [patch(f"{THINGS}/t", {"spec": change}, MERGE) for change in changes]
    return on_new_kind(f"rules: {name}", schema(FIELDS, *rules), *steps)


def refused(name: str, spec: dict[str, Any], *rules: Any, differs: tuple[str, ...] = ()) -> Case:
    crd = definition(version("v1", schema(spec, *rules)))
    return Case(
        f"rules: {name}", [post(CRDS, crd), delete(f"{CRDS}/{NAME}")], ("wording", *differs)
    )


LISTED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    **FEW,
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": TEXT, "size": NUMBER},
        "x-kubernetes-validations": [
            {"rule": "!has(oldSelf.size) || self.size >= oldSelf.size", "message": "only grows"}
        ],
    },
}

FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date",
    "datetime",
)  # fmt: skip
OF_FORMATS = (
    "a", "a-b", "a-", "a.b", "a.-", "A", "1a", "", "a/b", "-", "x" * 64, "/a", "a b", "aGVsbG8=",
    "2020-01-01", "2020-13-01", "2020-01-01T00:00:00Z", "https://a.b/c?d=e", "http://a b/",
    "123e4567-e89b-12d3-a456-426614174000",
)  # fmt: skip

EVALUATED = [
    judged(
        "formats",
        [
            {
                "rule": f"!format.{form}().validate(self.name).hasValue()",
                "messageExpression": f"'{form} ' + format.{form}().validate(self.name).value()[0]",
            }
            for form in FORMATS
        ],
        *({"name": text} for text in OF_FORMATS),
    ),
    judged(
        "named formats",
        [
            "format.named('uuid').hasValue() && !format.named('nothing').hasValue()",
            "!format.named(self.name).hasValue()",
            "format.dns1123Label().validate('A').orValue([]).size() == 1",
            "format.uri() == format.named('uri').value()",
            "!format.named('date').value().validate('2020-01-01').hasValue()",
        ],
        {"name": "uuid"},
        {"name": "other"},
    ),
    judged(
        "maps from lists and maps",
        [
            "self.list.transformMap(i, v, v + 1) == {0: 2, 1: 3}",
            "self.list.transformMap(i, v, v > 1, [v]) == {1: [2]}",
            "self.map.transformMap(k, v, k + v) == {'a': 'ab', 'c': 'cd'}",
            "self.map.transformMapEntry(k, v, {v: k}) == {'b': 'a', 'd': 'c'}",
            "self.map.transformMapEntry(k, v, k > 'b', {v: k}) == {'d': 'c'}",
            "self.list.transformMap(i, v, self.list.transformMap(j, w, v + w))[1][0] == 3",
            "self.map.transformMapEntry(k, v, {'.transformMap(': v}).size() == 1",
        ],
        {"list": [1, 2], "map": {"a": "b", "c": "d"}},
        {"list": [1, 2], "map": {"a": "b"}},
        {"list": [], "map": {}},
    ),
    judged("a comparison", ["self.a <= self.b"], {"a": 1, "b": 2}, {"a": 3, "b": 2}, {"b": 2}),
    judged(
        "message and expression for it",
        [
            {"rule": "self.a > 0", "message": " must be positive "},
            {"rule": "self.b > 0", "messageExpression": "'not ' + self.name"},
            {"rule": "self.b > 1", "messageExpression": "self.name", "message": "fallback"},
        ],
        {"a": 0, "b": 0},
        {"a": 1, "b": -1, "name": "own"},
    ),
    *(
        judged(
            f"reason {reason}",
            [{"rule": "self.a > 0", "message": "no", "reason": reason, "fieldPath": ".a"}],
            {"a": 0},
        )
        for reason in (
            "FieldValueInvalid",
            "FieldValueForbidden",
            "FieldValueRequired",
            "FieldValueDuplicate",
        )
    ),
    judged(
        "paths of fields",
        [
            {"rule": "self.a > 0", "message": "n", "fieldPath": ".inner.x"},
            {"rule": "self.a > 0", "message": "n", "fieldPath": ".map['k.l']"},
            {"rule": "self.a > 0", "message": "n", "fieldPath": "['a-b']"},
        ],
        {"a": 0},
    ),
    judged(
        "presence and optionals",
        [
            "!has(self.name) || self.name != 'bad'",
            "self.?inner.?x.orValue(1) == 1",
            "self.map[?'k'].orValue('v') == 'v' || !has(self.map)",
        ],
        {},
        {"name": "bad"},
        {"inner": {"x": 2}},
        {"map": {"k": "w"}},
    ),
    judged(
        "macros",
        [
            "!has(self.list) || self.list.all(x, x > 0)",
            "!has(self.list) || self.list.exists(x, x == 1)",
            "!has(self.list) || self.list.exists_one(x, x == 1)",
            "!has(self.list) || self.list.map(x, x * 2).filter(x, x > 2).size() < 3",
            "!has(self.map) || self.map.all(k, v, k != v)",
        ],
        {"list": [1, 2]},
        {"list": [0, 2]},
        {"list": [1, 1, 2, 3, 4]},
        {"map": {"k": "k"}},
    ),
    judged(
        "texts, lists and sets",
        [
            "!has(self.name) || self.name.lowerAscii() == self.name",
            "!has(self.name) || self.name.split('-').size() == 2",
            "!has(self.name) || self.name.matches('^[a-z]+-[0-9]+$')",
            "!has(self.name) || self.name.find('[0-9]+') != '13'",
            "!has(self.names) || self.names.isSorted()",
            "!has(self.names) || self.names.indexOf('x') != 1",
            "!has(self.list) || self.list.sum() < 10 && self.list.max() < 6",
            "!has(self.names) || sets.contains(['a', 'b', 'x'], self.names)",
            "!has(self.names) || self.names.join(',') != 'a,b'",
        ],
        {"name": "ab-1"},
        {"name": "Ab-13"},
        {"names": ["b", "a"]},
        {"names": ["a", "x"]},
        {"names": ["a", "c"]},
        {"names": ["a", "b"]},
        {"list": [6, 5]},
    ),
    judged(
        "quantities, addresses and URLs",
        [
            "!has(self.name) || quantity(self.name).isLessThan(quantity('1Gi'))",
            "!has(self.names) || self.names.all(n, isIP(n) && ip(n).family() == 4)",
            "!has(self.names) || self.names.all(n, cidr('10.0.0.0/8').containsIP(n))",
            "!has(self.map) || self.map.all(k, url(self.map[k]).getHostname() == 'example.com')",
        ],
        {"name": "512Mi"},
        {"name": "2Gi"},
        {"names": ["10.1.2.3"]},
        {"names": ["11.1.2.3"]},
        {"names": ["::1"]},
        {"map": {"k": "https://example.com:80/x?y=z"}},
        {"map": {"k": "https://example.org/"}},
    ),
    judged(
        "types by format",
        [
            "!has(self.when) || self.when > timestamp('2020-01-01T00:00:00Z')",
            "!has(self.wait) || self.wait < duration('1h')",
            "!has(self.data) || self.data == b'abc'",
            "!has(self.ratio) || self.ratio > 0.5",
            "!has(self.ratio) || self.ratio < 3",
            "!has(self.port) || (type(self.port) == int ? self.port > 80 : self.port == 'http')",
        ],
        {"when": "2021-01-01T00:00:00Z", "wait": "30m", "data": "YWJj", "ratio": 1, "port": 81},
        {"when": "2019-01-01T00:00:00Z"},
        {"wait": "1h30m"},
        {"data": "YWI="},
        {"ratio": 0},
        {"ratio": 3},
        {"port": 80},
        {"port": "https"},
    ),
    judged(
        "escaped names",
        ["!has(self.a__dash__b) || self.a__dash__b == 'x'", "self.__namespace__ != 'no'"],
        {"a-b": "x", "namespace": "yes"},
        {"a-b": "y", "namespace": "no"},
    ),
    judged(
        "whole objects",
        [],
        {"a": 1},
        {"a": 0},
        root=[
            {"rule": "self.metadata.name == 't0' || self.spec.a == 1", "message": "only t0"},
            {"rule": "self.kind == 'Thing'"},
        ],
    ),
    judged(
        "errors",
        ["self.list[3] > 0", "self.a / self.b > 0", "self.map['k'] == 'v'", "self.port > 1"],
        {"a": 1, "b": 0, "list": [1], "map": {"l": "m"}, "port": "x"},
    ),
    judged("an object that its schema rejects", ["self.a > 0"], {"a": "x"}, {"a": 0}),
    changed(
        "immutable and growing",
        [
            {"rule": "self.name == oldSelf.name", "message": "is immutable", "fieldPath": ".name"},
            "self.a >= oldSelf.a",
        ],
        {"name": "x", "a": 1},
        {"name": "y"},
        {"a": 0},
        {"a": 2},
    ),
    changed(
        "the old value is an optional",
        [
            {
                "rule": "oldSelf.hasValue() || self.a == 1",
                "optionalOldSelf": True,
                "message": "new ones start at 1",
            },
            {
                "rule": "oldSelf.optMap(o, o.b <= self.b).orValue(true)",
                "optionalOldSelf": True,
                "message": "only grows",
            },
        ],
        {"a": 1, "b": 1},
        {"a": 2},
        {"b": 0},
    ),
    on_new_kind(
        "rules: items of a list with keys",
        schema({"rows": LISTED}),
        post(THINGS, thing("t") | {"spec": {"rows": [{"name": "x", "size": 2}, {"name": "y"}]}}),
        patch(f"{THINGS}/t", {"spec": {"rows": [{"name": "y"}, {"name": "x", "size": 1}]}}, MERGE),
        patch(f"{THINGS}/t", {"spec": {"rows": [{"name": "z", "size": 1}]}}, MERGE),
    ),
    changed(
        "the order of a set",
        [{"rule": "self.set == oldSelf.set", "message": "is immutable"}],
        {"set": ["x", "y"]},
        {"set": ["y", "x"]},
        {"set": ["y", "z"]},
    ),
    on_new_kind(
        "rules: values of a map, and numbers alone",
        schema(
            {
                "map": {
                    "type": "object",
                    "maxProperties": 5,
                    "additionalProperties": {
                        **TEXT,
                        "x-kubernetes-validations": [{"rule": "self != 'bad'"}],
                    },
                },
                "n": {**NUMBER, "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]},
            }
        ),
        post(THINGS, thing("t") | {"spec": {"map": {"k.l": "bad"}}}),
        post(THINGS, thing("u") | {"spec": {"n": 3}}),
        post(THINGS, thing("v") | {"spec": {"n": 4}}),
    ),
    on_new_kind(
        "rules: a value that was invalid before its rule",
        schema(FIELDS),
        post(THINGS, thing("t") | {"spec": {"a": 1, "inner": {"x": 1}}}),
        patch(
            f"{CRDS}/{NAME}",
            [
                {
                    "op": "add",
                    "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
                    "/inner/x-kubernetes-validations",
                    "value": [{"rule": "self.x > 1", "message": "too small"}],
                }
            ],
            "application/json-patch+json",
        ),
        post(
            THINGS,
            thing("u") | {"spec": {"inner": {"x": 1}}},
            until=lambda reply: reply.status == 422,
        ),
        patch(f"{THINGS}/t", {"spec": {"a": 2}}, MERGE),
        patch(f"{THINGS}/t", {"spec": {"inner": {"y": "z"}}}, MERGE),
        get(f"{THINGS}/t"),
    ),
]

REFUSED = [
    refused("an unknown field", FIELDS, "self.nothing == 1", "has(self.nothing)"),
    refused("types that do not fit", FIELDS, "self.a == 'x'", "self.ratio == 1", "self.name > 1"),
    refused("no truth", FIELDS, "self.a", "'x'"),
    refused("bad syntax", FIELDS, "self.a ==", "self.list.all(x)"),
    refused("unknown names", FIELDS, "other.a == 1", "self.a.nothing()", "object.a == 1"),
    refused("no text as a message", FIELDS, {"rule": "true", "messageExpression": "self.a"}),
    refused("an unknown reason", FIELDS, {"rule": "true", "reason": "Other"}),
    refused("a path to nothing", FIELDS, {"rule": "true", "fieldPath": ".nothing"}),
    refused(
        "empty parts",
        FIELDS,
        {"rule": " "},
        {"rule": "true", "message": " "},
        {"rule": "true\n&& true"},
        {"rule": "true", "message": "a\nb"},
    ),
    refused("an optional without use", FIELDS, {"rule": "true", "optionalOldSelf": True}),
    refused(
        "old values of items without keys",
        {
            "rows": {
                "type": "array",
                **FEW,
                "items": {**NUMBER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            }
        },
    ),
]

CASES = [*EVALUATED, *REFUSED]
