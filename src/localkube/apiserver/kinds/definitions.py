"""CustomResourceDefinition: checks and accepted names.

A definition takes effect with its own write (see `custom_resources`). A definition whose names
belong to another definition of its group is stored and not served; it gets its names when the other
definition is deleted. Rules in CEL and conversion webhooks are stored for real servers and have no
effect here, which the writer is told.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import re2

from kubekit import schemas
from kubekit.objects.conditions import new_condition
from kubekit.objects.meta import timestamp
from kubekit.schemas import Schema
from localkube.apiserver import api_errors, causes, rules
from localkube.apiserver.admission import names
from localkube.apiserver.kinds.field_rules import check_required, each, fill, fill_optional, one_of
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.schema import structural
from localkube.apiserver.schema.values import compile_pattern
from localkube.apiserver.views.cells import CREATED_AT, NAME, condition_is_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.kinds.custom_resources import KnownKinds
    from localkube.apiserver.store.collection import ObjectReader


_GROUP = "apiextensions.k8s.io"
_WORDS = ("plural", "singular")
_KINDS = ("kind", "listKind")
_APPROVED = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_PROTECTED_GROUP = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_RULES = "x-kubernetes-validations"
RULES_WARNING = f"the local cluster stores {_RULES} of definitions and does not evaluate them"
CONVERSION_WARNING = (
    "the local cluster does not call conversion webhooks: it converts versions as with the strategy"
    " None"
)
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


# -- create and update ---------------------------------------------------------------------------


def _admit(new: Raw, old: Raw, store: ObjectReader, now: datetime) -> None:
    """Check and complete a definition; `old` is empty for a new one."""
    stored = old.get("status", {}).get("storedVersions", [])
    _check(new, stored)
    spec = new["spec"]
    kind = spec["names"]["kind"]
    fill(spec["names"], singular=kind.lower(), listKind=f"{kind}List")
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    fill_optional((conversion.get("webhook") or {}).get("clientConfig") or {}, "service", port=443)
    accepted = _accept_names(new, _names_in_use(new, store), now)
    status = new["status"] = {**new.get("status", {}), **accepted}
    current = next(str(v["name"]) for v in spec["versions"] if v.get("storage"))
    # Objects of older storage versions stay as they are until they are written again.
    if current not in stored:
        status["storedVersions"] = [*stored, current]


# -- names ---------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    group: str


class _Status(msgspec.Struct, rename="camel"):
    accepted_names: dict[str, Any]


class _Definition(msgspec.Struct):
    """The fields of a stored definition about names: its schemas are large and not decoded."""

    metadata: _Metadata
    spec: _Spec
    status: _Status


_definition = msgspec.json.Decoder(_Definition)


def _names_in_use(crd: Raw, store: ObjectReader) -> list[Raw]:
    """The accepted names of the other definitions of its group."""
    own, group = crd["metadata"].get("name"), (crd.get("spec") or {}).get("group")
    definitions = (_definition.decode(entry.value) for entry in store.scan(f"{CRDS.collection}/"))
    return [
        other.status.accepted_names
        for other in definitions
        if other.spec.group == group and other.metadata.name != own
    ]


def _accept_names(crd: Raw, others: list[Raw], now: datetime) -> Raw:
    """The accepted names and the conditions of a definition next to the names of others."""
    own = crd["spec"]["names"]
    # Plural, singular and short names are one space of names, in which kubectl looks a word up.
    words = {n for row in others for n in (*map(row.get, _WORDS), *row.get("shortNames", ()))}
    kinds = {name for row in others for name in map(row.get, _KINDS)}
    old = (crd.get("status") or {}).get("conditions") or []
    established = condition_is_true(crd, "Established")
    wanted = [("Plural", own["plural"], words), ("Singular", own["singular"], words)]
    wanted += [("ShortNames", name, words) for name in own.get("shortNames") or ()]
    wanted += [("Kind", own["kind"], kinds), ("ListKind", own["listKind"], kinds)]
    taken = [(f"{field}Conflict", name) for field, name, used in wanted if name in used]
    if taken:
        reason, name = taken[-1]  # the real server reports the last conflict
        rows = [("NamesAccepted", "False", reason, f'"{name}" is already in use')]
        rows += [("Established", "False", "NotAccepted", "not all names are accepted")]
        accepted = _without(own, {name for _, name in taken})
    else:
        rows = [("NamesAccepted", "True", "NoConflicts", "no conflicts found")]
        detail = "the initial names have been accepted"
        rows += [("Established", "True", "InitialNamesAccepted", detail)]
        accepted = dict(own)
    rows = rows[:1] if established else rows  # a definition once established stays so
    return {"acceptedNames": accepted, "conditions": _merge_conditions(old, rows, now)}


def _without(own: Raw, taken: set[str]) -> Raw:
    """The names that are left; plural and kind are shown even when they are empty."""
    left = {k: v for k, v in own.items() if k != "shortNames" and v not in [*taken]}
    short = [name for name in own.get("shortNames") or () if name not in taken]
    return {"plural": "", "kind": "", **left, **({"shortNames": short} if short else {})}


def _merge_conditions(
    old: list[Raw], rows: list[tuple[str, str, str, str]], now: datetime
) -> list[Raw]:
    """The conditions in their old order; a condition that did not change keeps its time."""
    conditions = {condition["type"]: condition for condition in old}
    for type_, status, reason, message in rows:
        before = conditions.get(type_) or {}
        if (before.get("status"), before.get("reason")) != (status, reason):
            conditions[type_] = new_condition(type_, status, reason, message, now)
    return list(conditions.values())


# -- checks --------------------------------------------------------------------------------------


def _check(crd: Raw, stored: list[str]) -> None:
    spec, name = crd.get("spec") or {}, crd["metadata"].get("name", "")
    found = [
        *check_required(spec, "spec", "group", "names", "versions", "scope"),
        *check_required(spec.get("names") or {}, "spec.names", "plural", "kind"),
    ] or [
        *_check_names(spec, name),
        *one_of(spec, "scope", ("Cluster", "Namespaced"), "spec"),
        *_check_versions(spec["versions"]),
        *_check_conversion(spec.get("conversion") or {}),
        *_check_approval(spec["group"], crd["metadata"].get("annotations") or {}),
        *_check_stored_versions(spec["versions"], stored),
    ]
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead"
        )
        found.append(causes.invalid("spec.preserveUnknownFields", True, detail))
    api_errors.raise_if_invalid(_GROUP, "CustomResourceDefinition", name, found)


def _check_names(spec: Raw, name: str) -> Causes:
    own = spec["names"]
    if name != f"{own['plural']}.{spec['group']}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    singular = own.get("singular") or own["kind"].lower()
    for field, word in (("plural", own["plural"]), ("singular", singular)):
        problems = names.check_dns1035_label(word)
        yield from names.invalid_values(f"spec.names.{field}", word, problems)
    list_kind = own.get("listKind") or f"{own['kind']}List"
    for field, word in (("kind", own["kind"]), ("listKind", list_kind)):
        for problem in names.check_dns1035_label(word.lower()):
            detail = f"may have mixed case, but should otherwise match: {problem}"
            yield causes.invalid(f"spec.names.{field}", word, detail)


def _check_versions(versions: list[Raw]) -> Causes:
    if sum(bool(v.get("storage")) for v in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield causes.invalid("spec.versions", versions, detail)
    version_names = [v.get("name", "") for v in versions]
    if len(set(version_names)) != len(version_names):
        yield causes.invalid("spec.versions", versions, "must contain unique version names")
    # What all versions have in common, the real server checks once, for all.
    one_schema, same_columns = (
        all(version.get(field) == versions[0].get(field) for version in versions)
        for field in ("schema", "additionalPrinterColumns")
    )
    for i, version in enumerate(versions):
        path, name = f"spec.versions[{i}]", version_names[i]
        yield from names.invalid_values(f"{path}.name", name, names.check_dns1035_label(name))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield causes.required(f"{path}.schema.openAPIV3Schema")
        elif i == 0 or not one_schema:
            where = "spec.validation" if one_schema else f"{path}.schema"
            yield from _check_schema(schema, f"{where}.openAPIV3Schema")
        if i == 0 or not same_columns:
            yield from _check_columns(version, "spec" if same_columns else path)


def _check_columns(version: Raw, path: str) -> Causes:
    for where, column in each(version, path, "additionalPrinterColumns"):
        yield from check_required(column, where, "name", "type")
        if column.get("type") and column["type"] not in _COLUMN_TYPES:
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield causes.invalid(f"{where}.type", column["type"], detail)
        json_path = column.get("jsonPath")
        if not json_path:
            yield causes.required(f"{where}.JSONPath")
        elif not json_path.startswith("."):
            detail = "must be a simple json path starting with ."
            yield causes.invalid(f"{where}.JSONPath", json_path, detail)


def _check_conversion(conversion: Raw) -> Causes:
    yield from one_of(conversion, "strategy", ("None", "Webhook"), "spec.conversion")
    webhook = conversion.get("webhook") or {}
    path, versions = "spec.conversion.webhookClientConfig", webhook.get("conversionReviewVersions")
    if conversion.get("strategy") == "Webhook":
        if not webhook.get("clientConfig"):
            yield causes.required(path, "required when strategy is set to Webhook")
        if not versions:
            yield causes.required("spec.conversion.conversionReviewVersions")
        return
    only_webhooks = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig"):
        yield causes.forbidden(path, only_webhooks)
    if versions:
        yield causes.forbidden("spec.conversion.conversionReviewVersions", only_webhooks)


def _check_approval(group: str, annotations: Raw) -> Causes:
    """Groups of the Kubernetes project need its approval."""
    approval, path = annotations.get(_APPROVED, ""), f"metadata.annotations[{_APPROVED}]"
    approved = approval.startswith(("unapproved", "https://", "http://"))
    if approved or not _PROTECTED_GROUP.search(group):
        return
    detail = f'protected groups must have approval annotation "{_APPROVED}"'
    if not approval:
        yield causes.required(path, f"{detail}, {_SEE}")
    else:
        reason = 'with either a URL or a reason starting with "unapproved"'
        yield causes.invalid(path, approval, f"{detail} {reason}, {_SEE}")


def _check_stored_versions(versions: list[Raw], stored: list[str]) -> Causes:
    """The causes for versions that are gone although objects may be stored in them."""
    left = {version.get("name") for version in versions}
    for i, name in enumerate(stored):
        if name not in left:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {name} and removes {name} from status.storedVersions"
            )
            yield causes.invalid(f"status.storedVersions[{i}]", name, detail)


# -- warnings ------------------------------------------------------------------------------------


def _warnings(known: KnownKinds, crd: Raw) -> Iterator[str]:
    spec, name = crd["spec"], crd["metadata"]["name"]
    # A field may have that name.
    rows = (part.get(_RULES) for part in schemas.maps_in(spec["versions"]))
    if name not in known.immutable_fields and any(isinstance(row, list) and row for row in rows):
        yield RULES_WARNING
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        yield CONVERSION_WARNING


# -- deletion ------------------------------------------------------------------------------------


def _deletion_view(crd: Raw, now: datetime) -> Raw:
    """A removed definition as the real server shows it, which removes the objects afterwards."""
    meta = crd["metadata"] | {"deletionTimestamp": timestamp(now), "finalizers": [_CLEANUP]}
    return crd | {"metadata": meta}


# -- schemas -------------------------------------------------------------------------------------

_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def _check_schema(schema: Raw, path: str) -> Causes:
    """The causes for an invalid schema of a version.

    Every field has a type, every pattern compiles, defaults fit.
    """
    if not schema.get("type"):
        yield causes.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield causes.invalid(f"{path}.type", schema["type"], "must be object at the root")
    else:
        yield from _check_node(schema, path)


def _check_node(schema: Raw, path: str) -> Causes:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield causes.not_supported(f"{path}.type", kind, _TYPES)
        return
    if "pattern" in schema:
        yield from _check_pattern(schema["pattern"], f"{path}.pattern")
    if "default" in schema:
        yield from _check_default(schema, f"{path}.default")
    if isinstance(schema.get("items"), list):
        yield causes.forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif kind == "array" and not isinstance(schema.get("items"), dict):
        yield causes.required(f"{path}.items", "must be specified")
    for name, part in (schema.get("properties") or {}).items():
        yield from _check_field(part, f"{path}.properties[{name}]", "object fields")
    if isinstance(schema.get("items"), dict):
        yield from _check_field(schema["items"], f"{path}.items", "array items")
    if isinstance(schema.get("additionalProperties"), dict):
        where = f"{path}.additionalProperties"
        yield from _check_field(schema["additionalProperties"], where, "object fields")


def _check_field(schema: Raw, path: str, place: str) -> Causes:
    free = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not any(schema.get(word) for word in free):
        yield causes.required(f"{path}.type", f"must not be empty for specified {place}")
    yield from _check_node(schema, path)


def _check_pattern(pattern: str, path: str) -> Causes:
    try:
        compile_pattern(pattern)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        detail = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
        yield causes.invalid(path, pattern, detail)


def _check_default(schema: Raw, path: str) -> Causes:
    # A default that does not fit would make every object that lacks the field invalid.
    for cause in structural.check(schema["default"], Schema(schema)):
        yield cause._replace(field=f"{path}{cause.field and '.' + cause.field}")


# -- types ---------------------------------------------------------------------------------------

_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_OR_LISTS, _OR_BOOLEANS = ("items",), ("additionalItems", "additionalProperties")


def check_nested_types(value: Any, schema: Schema, path: str = "") -> Causes:
    """The causes for wrong types in `items` and `additionalProperties`.

    The published schema of definitions gives them no type, because each is a schema or a list or a
    boolean. Fields that no schema knows are removed, in place.
    """
    props = schemas.by_name(_PROPS)
    for part, known, where, key in structural.children(value, schema, path):
        if schema.properties is not props.properties or key not in (*_OR_LISTS, *_OR_BOOLEANS):
            if isinstance(part, dict | list):
                yield from check_nested_types(part, known, where)
            continue
        if key in _OR_BOOLEANS and not isinstance(part, bool | dict):
            detail = (
                f'{where} in body must be a schema or a boolean: "{structural.type_word(part)}"'
            )
            yield causes.mistyped(where, structural.type_word(part), detail)
        for inner in part if isinstance(part, list) else [part]:
            if isinstance(inner, dict):
                structural.prune(inner, props, where)
                yield from structural.check(inner, props, where, integral_floats=False)
                yield from check_nested_types(inner, props, where)


CRDS = Resource(
    _GROUP, "v1", "customresourcedefinitions", "CustomResourceDefinition", False,
    short=("crd", "crds"), categories=("api-extensions",), subresources=STATUS,
    strategy=rules.Strategy(
        checks=rules.Checks(immutable=("spec.scope", "spec.names.kind")),
        admission=rules.Admission(lambda crd, store, now: _admit(crd, {}, store, now), _admit),
        generation="spec",
        forms=rules.Forms(check_types=check_nested_types),
        deletion=rules.Deletion(
            view=_deletion_view,
            contents=lambda crd: f"{crd['metadata']['name']}/",
        ),
        table=rules.Table(NAME | CREATED_AT),
    ),
)  # fmt: skip


def definitions(known: KnownKinds) -> Resource:
    """The resource for a server that knows some kinds: their rules have an effect."""
    return replace(CRDS, strategy=replace(CRDS.strategy, warnings=partial(_warnings, known)))
