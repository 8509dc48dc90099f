"""Definitions of custom kinds: what they may say, and the status they get.

Pure; called by `policy.py`. Schemas are looked into by `validation/schemas.py`.

Which of a definition's names it may use: not those that another one of its group has.

Pure; called by `definitions.py` on every write of a definition. One that cannot have all its names
is kept and not served; it gets them when the other one goes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names
from muster.local.apiserver.kinds.crd_schema import check_schema
from muster.local.apiserver.kinds.fields import fill
from muster.local.apiserver.kinds.pod_containers import one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


_WORDS = ("plural", "singular")
_KINDS = ("kind", "listKind")


def accept_names(crd: Raw, others: Iterable[Raw], now: str) -> Raw:
    """The names and conditions of a definition beside `others`, the accepted names of its group."""
    names, rest = crd["spec"]["names"], list(others)
    words = {n for other in rest for n in (*_of(other, _WORDS), *other.get("shortNames", ()))}
    kinds = {n for other in rest for n in _of(other, _KINDS)}
    before = (crd.get("status") or {}).get("conditions") or []
    taken = [
        *((f"{_title(field)}Conflict", names[field]) for field in _WORDS if names[field] in words),
        *(("ShortNamesConflict", n) for n in names.get("shortNames") or () if n in words),
        *((f"{_title(field)}Conflict", names[field]) for field in _KINDS if names[field] in kinds),
    ]
    if taken:
        reason, name = taken[-1]
        rows = [_row("NamesAccepted", "False", reason, f'"{name}" is already in use', now)]
        if not condition_is_true(before, "Established"):
            told = "not all names are accepted"
            rows.append(_row("Established", "False", "NotAccepted", told, now))
        lost = {name for _, name in taken}
        return {"acceptedNames": _without(names, lost), "conditions": _merged(before, rows)}
    rows = [_row("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)]
    if not condition_is_true(before, "Established"):
        told = "the initial names have been accepted"
        rows.append(_row("Established", "True", "InitialNamesAccepted", told, now))
    return {"acceptedNames": dict(names), "conditions": _merged(before, rows)}


def condition_is_true(rows: Sequence[Raw], type_: str) -> bool:
    """Whether a condition is true."""
    return any(row["type"] == type_ and row["status"] == "True" for row in rows)


def _of(names: Raw, fields: tuple[str, ...]) -> list[str]:
    return [names[field] for field in fields if names.get(field)]


def _title(field: str) -> str:
    return field[0].upper() + field[1:]


def _without(names: Raw, lost: set[str]) -> Raw:
    """The names that are left; plural and kind are told even when they are none."""
    kept = {key: value for key, value in names.items() if value not in [*lost]}
    short = [name for name in names.get("shortNames") or () if name not in lost]
    kept.pop("shortNames", None)
    return {"plural": "", "kind": "", **kept, **({"shortNames": short} if short else {})}


def _row(type_: str, status: str, reason: str, message: str, now: str) -> Raw:
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _merged(before: list[Raw], rows: list[Raw]) -> list[Raw]:
    """The rows by type; one that says the same as before keeps its time."""
    known = {row["type"]: row for row in before}
    for row in rows:
        old = known.get(row["type"])
        same = old is not None and (old["status"], old["reason"]) == (row["status"], row["reason"])
        known[row["type"]] = old if old is not None and same else row
    return list(known.values())


_APPROVED = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_OWNED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")


def prepare_update(new: Raw, old: Raw, others: list[Raw], now: str) -> None:
    """Complete a definition that was changed; `others` are the names that its group has."""
    _check(new, old)
    _complete(new)
    status = {**new.get("status", {}), **accept_names(new, others, now)}
    stored = old.get("status", {}).get("storedVersions", [])
    current = _storage(new)
    if current not in stored:
        status["storedVersions"] = [*stored, current]
    new["status"] = status


def _check(crd: Raw, old: Raw | None = None) -> None:
    """Enough to serve the kind; what is missing or wrong is named by its field."""
    spec, name = crd.get("spec") or {}, crd["metadata"].get("name", "")
    causes = list(_missing(spec)) or [
        *_names(spec, name),
        *one_of(spec, "scope", ("Cluster", "Namespaced"), "spec"),
        *_versions(spec["versions"]),
        *_conversion(spec.get("conversion") or {}),
        *_approval(spec["group"], crd["metadata"].get("annotations") or {}),
        *_kept(spec["versions"], old),
    ]
    if spec.get("preserveUnknownFields"):
        told = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead"
        )
        causes.append(api_errors.invalid_value("spec.preserveUnknownFields", True, told))
    if causes:
        raise api_errors.invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, causes)


def _missing(spec: Raw) -> Iterator[Cause]:
    for field in ("group", "names", "versions", "scope"):
        if not spec.get(field):
            yield api_errors.required(f"spec.{field}")
    for field in ("plural", "kind"):
        if not (spec.get("names") or {}).get(field):
            yield api_errors.required(f"spec.names.{field}")


def _names(spec: Raw, name: str) -> Iterator[Cause]:
    named = spec["names"]
    if name != f"{named['plural']}.{spec['group']}":
        yield api_errors.invalid_value(
            "metadata.name", name, 'must be spec.names.plural+"."+spec.group'
        )
    singular = named.get("singular") or named["kind"].lower()
    for field, word in (("plural", named["plural"]), ("singular", singular)):
        for told in names.check_dns1035_label(word):
            yield api_errors.invalid_value(f"spec.names.{field}", word, told)
    listed = named.get("listKind") or f"{named['kind']}List"
    for field, word in (("kind", named["kind"]), ("listKind", listed)):
        for told in names.check_dns1035_label(word.lower()):
            mixed = f"may have mixed case, but should otherwise match: {told}"
            yield api_errors.invalid_value(f"spec.names.{field}", word, mixed)


def _versions(versions: list[Raw]) -> Iterator[Cause]:
    if sum(bool(v.get("storage")) for v in versions) != 1:
        told = "must have exactly one version marked as storage version"
        yield api_errors.invalid_value("spec.versions", versions, told)
    named = [v.get("name", "") for v in versions]
    if len(set(named)) != len(named):
        yield api_errors.invalid_value(
            "spec.versions", versions, "must contain unique version names"
        )
    for i, version in enumerate(versions):
        path = f"spec.versions[{i}]"
        for told in names.check_dns1035_label(named[i]):
            yield api_errors.invalid_value(f"{path}.name", named[i], told)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield api_errors.required(f"{path}.schema.openAPIV3Schema")
        elif i == 0 or not _shared(versions, "schema"):
            where = "spec.validation" if _shared(versions, "schema") else f"{path}.schema"
            yield from check_schema(schema, f"{where}.openAPIV3Schema")
        shared = _shared(versions, "additionalPrinterColumns")
        if i == 0 or not shared:
            yield from _columns(version, "spec" if shared else path)


def _shared(versions: list[Raw], field: str) -> bool:
    """Whether all versions say the same: then it is named as if it were said once for all."""
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _columns(version: Raw, path: str) -> Iterator[Cause]:
    for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{i}]"
        if not column.get("name"):
            yield api_errors.required(f"{where}.name")
        if not column.get("type"):
            yield api_errors.required(f"{where}.type")
        elif column["type"] not in _COLUMN_TYPES:
            told = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield api_errors.invalid_value(f"{where}.type", column["type"], told)
        shown = column.get("jsonPath")
        if not shown:
            yield api_errors.required(f"{where}.JSONPath")
        elif not shown.startswith("."):
            told = "must be a simple json path starting with ."
            yield api_errors.invalid_value(f"{where}.JSONPath", shown, told)


def _conversion(conversion: Raw) -> Iterator[Cause]:
    yield from one_of(conversion, "strategy", ("None", "Webhook"), "spec.conversion")
    if conversion.get("strategy") == "Webhook":
        webhook = conversion.get("webhook") or {}
        if not webhook.get("clientConfig"):
            told = "required when strategy is set to Webhook"
            yield api_errors.required("spec.conversion.webhookClientConfig", told)
        if not webhook.get("conversionReviewVersions"):
            yield api_errors.required("spec.conversion.conversionReviewVersions")


def _approval(group: str, annotations: Raw) -> Iterator[Cause]:
    """Groups of the project itself are not for everybody."""
    said, path = annotations.get(_APPROVED, ""), f"metadata.annotations[{_APPROVED}]"
    if not _OWNED.search(group) or said.startswith(("unapproved", "https://", "http://")):
        return
    told = f'protected groups must have approval annotation "{_APPROVED}"'
    if not said:
        yield api_errors.required(path, f"{told}, {_SEE}")
    else:
        reason = 'with either a URL or a reason starting with "unapproved"'
        yield api_errors.invalid_value(path, said, f"{told} {reason}, {_SEE}")


def _kept(versions: list[Raw], old: Raw | None) -> Iterator[Cause]:
    """A version that objects may be stored in stays."""
    left = {version.get("name") for version in versions}
    for i, name in enumerate((old or {}).get("status", {}).get("storedVersions", [])):
        if name not in left:
            told = (
                f"missing from spec.versions; {name} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {name} and removes {name} from status.storedVersions"
            )
            yield api_errors.invalid_value(f"status.storedVersions[{i}]", name, told)


def _storage(crd: Raw) -> str:
    return next(str(v["name"]) for v in crd["spec"]["versions"] if v.get("storage"))


def _complete(crd: Raw) -> None:
    names = crd["spec"]["names"]
    fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
    crd["spec"].setdefault("conversion", {"strategy": "None"})


def prepare_create(crd: Raw, others: list[Raw], now: str) -> None:
    """A definition takes effect with its write, so it is born established if its names are free."""
    _check(crd)
    _complete(crd)
    crd["status"] = {"storedVersions": [_storage(crd)]}
    crd["status"] |= accept_names(crd, others, now)
