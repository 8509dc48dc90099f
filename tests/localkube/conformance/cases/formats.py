"""Formats in custom objects, restricted names, and nullable fields."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.crds import (
    CRDS,
    NAME,
    THINGS,
    definition,
    established,
    version,
)
from tests.localkube.conformance.cases.steps import answered, delete, get, patch, post
from tests.localkube.conformance.transcript import JSON_PATCH, Case, Step

# For each format, texts that may be of it.
TEXTS = {
    "date": ("2026-01-02", "2026-1-2", "2026-02-30", "2026-01-02T00:00:00Z", ""),
    "date-time": (
        "2026-01-02T03:04:05Z",
        "2026-01-02t03:04:05z",
        "2026-01-02T03:04:05.123456789Z",
        "2026-01-02T03:04:05+01:00",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-01-02T25:00:00Z",
        "2026-01-02",
    ),
    "duration": (
        "1h", "90s", "1.5h", "-1h", "1h 30m", "5 minutes", "3 weeks", "2d", "1", "h", "0", "",
        "5 parsecs",
    ),
    "email": ("a@b.example", "A <a@b.example>", "a@b", "a", "@b", "a@", "a b@c", ""),
    "hostname": ("a", "a.example", "a_b", "-a", "a-", "a..b", "a" * 64, "1.2.3.4", ""),
    "ipv4": ("1.2.3.4", "1.2.3", "1.2.3.256", "01.2.3.4", "::1", "x", ""),
    "ipv6": ("::1", "2001:db8::ffff", "1.2.3.4", "::ffff:1.2.3.4", ":::", "x"),
    "cidr": ("10.0.0.0/8", "010.0.0.0/8", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "::/0", "x/8"),
    "mac": ("00:00:5e:00:53:01", "00-00-5E-00-53-01", "0000.5e00.5301", "00:00:5e", "x"),
    "uri": (
        "http://a.example/b?c=d", "/a", "a", "mailto:x", "http://a b", "", "://a", "%zz", "/%zz",
    ),
    "uuid": (
        "123e4567-e89b-12d3-a456-426614174000",
        "123E4567E89B12D3A456426614174000",
        "123e4567-e89b-12d3-a456-42661417400",
        "x",
    ),
    "uuid4": ("123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    "uuid3": ("123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    "uuid5": ("123e4567-e89b-52d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    "byte": ("YQ==", "YQ", "a b", ""),
    "hexcolor": ("#fff", "ffffff", "#ffff", "x"),
    "rgbcolor": ("rgb(1,2,3)", "rgb(1,2,300)", "1,2,3"),
    "ssn": ("123-45-6789", "123456789", "12-3"),
    "bsonobjectid": ("507f1f77bcf86cd799439011", "507f", ""),
    "password": ("x", ""),
    "k8s-short-name": ("a", "A", "a.b", "a" * 64, "-a", ""),
    "k8s-long-name": ("a.b", "A", "a..b", "a" * 254, ""),
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {"name": {"type": "string", "pattern": "^t", "maxLength": 12}},
        },
        "spec": {
            "type": "object",
            "properties": {
                "gone": {"type": "string", "default": "x", "nullable": True},
                "kept": {"type": "string", "default": "x"},
                **{name.replace("-", ""): {"type": "string", "format": name} for name in TEXTS},
            },
        },
    },
}


def thing(name: str = "thing", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "$ns.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


def defined(*steps: Step) -> list[Step]:
    """These requests about things, while there are any."""
    begun = [
        post(CRDS, definition(version(schema=SCHEMA))),
        get(f"{CRDS}/{NAME}", until=established),
    ]
    return [
        *begun,
        get(THINGS, until=lambda reply: reply.status == 200),
        *steps,
        delete(f"{CRDS}/{NAME}"),
    ]


PATTERN = "/spec/versions/0/schema/openAPIV3Schema/properties/metadata/properties/name/pattern"
TIMES = ("date", "date-time", "duration")
PLACES = ("email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uri")


def written(*names: str) -> list[Step]:
    """All the texts of these formats, one after the other."""
    return [
        patch(f"{THINGS}/thing", {"spec": {name.replace("-", ""): text}})
        for name in names
        for text in TEXTS[name]
    ]


CASES = [
    *(
        Case(
            f"formats: {what}",
            defined(post(THINGS, thing()), *written(*names)),
            ("crd-at-once", "wording"),
        )
        for what, names in (
            ("times", TIMES),
            ("addresses", PLACES),
            ("others", tuple(name for name in TEXTS if name not in TIMES + PLACES)),
        )
    ),
    Case(
        "names that a schema restricts",
        defined(
            post(THINGS, thing("other")),
            post(THINGS, thing("thing-that-is-too-long")),
            post(THINGS, thing("thing")),
            patch(
                f"{CRDS}/{NAME}", [{"op": "replace", "path": PATTERN, "value": "^z"}], JSON_PATCH
            ),
            get(THINGS, until=lambda reply: reply.status == 200),
            post(f"{THINGS}?dryRun=All", thing("thong"), until=answered(422)),
            patch(f"{THINGS}/thing", {"metadata": {"labels": {"a": "b"}}}),
        ),
        ("crd-at-once", "wording"),
    ),
    Case(
        "nullable fields",
        defined(
            post(THINGS, thing(gone=None, kept=None)),
            patch(f"{THINGS}/thing", {"spec": {"gone": "y", "kept": "y"}}),
            patch(f"{THINGS}/thing", {"spec": {"gone": None, "kept": None}}),
        ),
        ("crd-at-once",),
    ),
]
