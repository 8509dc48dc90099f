"""Custom kinds: the resources that a definition adds, and their rules.

Objects of a custom kind are held to the schema of its definition. Rules in it
(`x-kubernetes-validations`) are not evaluated; the caller may name fields that stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kubekit.schemas import Schema
from localkube.apiserver import api_errors, codec, rules
from localkube.apiserver.causes import Cause
from localkube.apiserver.resource import Resource
from localkube.apiserver.schema import structural
from localkube.apiserver.views.cells import condition_is_true

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes

    UnknownFields = Callable[[str, str, Raw], list[str]]
    """The paths of fields that an object of this group and kind has and its kind does not know."""


_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def no_unknown_fields(group: str, kind: str, obj: Raw) -> list[str]:
    """For kinds whose definitions name all their fields."""
    return []


@dataclass(frozen=True)
class KnownKinds:
    """What the caller of the server knows of kinds that it defines itself."""

    unknown_fields: UnknownFields = no_unknown_fields
    immutable_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the name of a definition, paths that no update of an object changes. They stand for all
    rules of that definition."""
    roles: tuple[Raw, ...] = ()
    """ClusterRoles that are there from the start, e.g. of who may read and edit these kinds."""


def resources_of(crd: Raw, known: KnownKinds | None = None) -> Iterator[Resource]:
    """One resource per served version, most stable first; none until its names are accepted."""
    if not condition_is_true(crd, "Established"):
        return
    spec = crd["spec"]
    own = spec["names"]
    storage: Raw = next((v for v in spec["versions"] if v.get("storage")), {})
    stored = _schema(storage)
    _share_equal_fields(map(_schema, spec["versions"]))
    known = known or KnownKinds()
    unknown_fields = partial(known.unknown_fields, spec["group"], own["kind"])
    immutable = known.immutable_fields.get(crd["metadata"]["name"], ())
    # Objects stored before a change of the definition may have fields that it no longer has.
    changed = crd["metadata"].get("generation", 1) > 1
    for version in sorted(spec["versions"], key=lambda v: version_rank(v["name"])):
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        schema = _schema(version)
        yield Resource(
            group=spec["group"],
            version=version["name"],
            plural=own["plural"],
            kind=own["kind"],
            namespaced=spec.get("scope") != "Cluster",
            singular=own.get("singular") or "",
            short=tuple(own.get("shortNames") or ()),
            categories=tuple(own.get("categories") or ()),
            subresources=frozenset(subresources),
            storage_version=storage.get("name", ""),
            fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
            custom=True,
            schema=schema,
            walkable_schema=_walkable(schema),
            storage_schema=_walkable(stored) if schema != stored else None,
            needs_reshaping=(changed or schema != stored)
            and not (schema.get(_PRESERVE) and not schema.get("properties")),
            printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
            scale=subresources.get("scale") or {},
            deprecation=_deprecation(version, spec),
            strategy=_strategy(schema, unknown_fields, immutable),
        )


def _schema(version: Raw) -> Raw:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _share_equal_fields(schemas: Iterable[Raw]) -> None:
    """Store equal fields of several versions once: most versions differ in a few defaults only."""
    fields: dict[bytes, Raw] = {}
    for schema in schemas:
        for part in (schema.get("properties") or {}).values():
            properties: Raw = part.get("properties") or {}
            for name, one in properties.items():
                properties[name] = fields.setdefault(msgspec.json.encode(one), one)


def _walkable(schema: Raw) -> Schema | None:
    """The schema without metadata, whose fields no definition can change."""
    if not schema:
        return None
    properties = {k: v for k, v in schema.get("properties", {}).items() if k != "metadata"}
    return Schema({**schema, "properties": properties})


def _deprecation(version: Raw, spec: Raw) -> str:
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind, rank = spec["group"], spec["names"]["kind"], version_rank(version["name"])
    better = [
        v["name"]
        for v in spec["versions"]
        if v.get("served") and not v.get("deprecated") and version_rank(v["name"]) < rank
    ]
    use = f"; use {group}/{min(better, key=version_rank)} {kind}" if better else ""
    return f"{group}/{version['name']} {kind} is deprecated{use}"


def version_rank(version: str) -> tuple[int, ...]:
    """The order of versions in discovery: v2, v1, v1beta2, v1beta1, v1alpha1."""
    numbers = re.findall(r"[0-9]+", version)
    whole = version[1:] in numbers
    stage = 0 if whole else 1 if "beta" in version else 2 if "alpha" in version else 3
    return (stage, *(-int(number) for number in numbers))


# -- rules ---------------------------------------------------------------------------------------


def _strategy(
    schema: Raw, unknown_fields: Callable[[Raw], list[str]], immutable: tuple[str, ...]
) -> rules.Strategy:
    """The rules of a custom kind with this schema."""
    declared: Raw = (schema.get("properties") or {}).get("metadata") or {}
    name_rules: Raw = (declared.get("properties") or {}).get("name") or {}
    return rules.Strategy(
        generation="spec",
        update_names_revision=True,
        checks=rules.Checks(
            # A schema can restrict the names of new objects.
            create=lambda obj: structural.check(
                str(obj["metadata"].get("name") or ""), Schema(name_rules), "metadata.name"
            ),
            update=partial(_check_unchanged, immutable),
        ),
        status=rules.Status(keeps={"f:metadata": {}, "f:spec": {}}),
        forms=rules.Forms(apply_schema=_apply_schema, unknown_fields=unknown_fields),
    )


def _check_unchanged(paths: tuple[str, ...], new: Raw, old: Raw) -> Causes:
    """An empty field counts as absent, as it does in the rules that stand for these paths."""
    for path in paths:
        if (codec.at(new, path) or "") != (codec.at(old, path) or ""):
            yield Cause(path, "FieldValueInvalid", "Invalid value: field is immutable")


def _apply_schema(resource: Resource, obj: Raw, old: Raw | None) -> None:
    """Write defaults and reject values that do not fit; values of `old` need not fit."""
    schema = resource.walkable_schema
    if schema is None:
        return
    structural.fill_defaults(obj, schema)
    causes = structural.check(obj, schema, old=structural.ABSENT if old is None else old)
    name = str(obj["metadata"].get("name") or "")
    api_errors.raise_if_invalid(resource.group, resource.kind, name, causes)
