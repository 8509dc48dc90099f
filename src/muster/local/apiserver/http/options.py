"""Query options of list, watch and write, checked first; selectors of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.selectors import FieldSelector, Selector, parse_fields, parse_labels
from muster.errors import InvalidSelector
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.apiserver.api_errors import Cause
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.store.changes import Entry


_WRITES = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}
_STRICTNESS = ("Ignore", "Warn", "Strict")
_MAX_MANAGER = 128
_MATCH, _INITIAL = "resourceVersionMatch", "sendInitialEvents"


def check_write(verb: str, query: Mapping[str, str], *, apply: bool) -> None:
    """Reject invalid options of a write: above all a dry run that would not be one."""
    if verb not in _WRITES:
        return
    causes = []
    dry, strictness = query.get("dryRun"), query.get("fieldValidation", "")
    if dry not in (None, "", "All"):
        causes.append(api_errors.not_supported("dryRun", [dry], ("All",)))
    if strictness and strictness not in _STRICTNESS and not verb.startswith("delete"):
        causes.append(
            api_errors.not_supported("fieldValidation", strictness, ("", *sorted(_STRICTNESS)))
        )
    causes += _check_manager(query.get("fieldManager", ""))
    if verb == "patch" and query.get("force") and not apply:
        causes.append(
            api_errors.forbidden_field("force", "may not be specified for non-apply patch")
        )
    if causes:
        raise api_errors.invalid("meta.k8s.io", _WRITES[verb], "", causes)


def _check_manager(name: str) -> list[Cause]:
    if len(name.encode()) > _MAX_MANAGER:
        return [api_errors.too_long("fieldManager", _MAX_MANAGER)]
    if not name.isprintable():
        return [
            api_errors.invalid_value(
                "fieldManager", name, "should only contain printable characters"
            )
        ]
    return []


def check_table(query: Mapping[str, str]) -> None:
    """Reject an unknown `includeObject`."""
    include = query.get("includeObject", "")
    if include not in ("", "None", "Metadata", "Object"):
        raise api_errors.bad_request(f"unrecognized includeObject value: {include!r}")


def check_list(query: Mapping[str, str]) -> None:
    """Reject options that contradict each other."""
    match, version = query.get(_MATCH, ""), query.get("resourceVersion", "")
    causes: list[Cause] = []
    if match:
        causes += _check_match(match, version, paged=bool(query.get("continue")))
    if query.get(_INITIAL):
        causes.append(api_errors.forbidden_field(_INITIAL, f"{_INITIAL} is forbidden for list"))
    _raise(causes)
    if query.get("continue") and version not in ("", "0"):
        raise api_errors.bad_request(
            "specifying resource version is not allowed when using continue"
        )


def _check_match(match: str, version: str, *, paged: bool) -> list[Cause]:
    causes = []
    if paged:
        causes.append(
            api_errors.forbidden_field(_MATCH, f"{_MATCH} is forbidden when continue is provided")
        )
    if not version:
        causes.append(
            api_errors.forbidden_field(
                _MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"
            )
        )
    if match not in ("Exact", "NotOlderThan"):
        causes.append(api_errors.not_supported(_MATCH, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        detail = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
        causes.append(api_errors.forbidden_field(_MATCH, detail))
    return causes


def check_watch(query: Mapping[str, str]) -> None:
    """Reject options that contradict each other, or are not for a watch."""
    match, initial = query.get(_MATCH, ""), query.get(_INITIAL, "")
    causes = []
    if match and not initial:
        detail = f"{_MATCH} is forbidden for watch unless {_INITIAL} is provided"
        causes.append(api_errors.forbidden_field(_MATCH, detail))
    if initial and not match:
        detail = f"{_INITIAL} requires setting {_MATCH} to NotOlderThan"
        causes.append(api_errors.forbidden_field(_MATCH, detail))
    if match not in ("", "NotOlderThan"):
        causes.append(api_errors.not_supported(_MATCH, match, ("NotOlderThan",)))
    if query.get("continue"):
        causes.append(api_errors.forbidden_field("continue", "continue is forbidden for watch"))
    _raise(causes)


def _raise(causes: list[Cause]) -> None:
    if causes:
        raise api_errors.invalid("meta.k8s.io", "ListOptions", "", causes)


class Selection(NamedTuple):
    """The objects of a collection that a request selects."""

    labels: Selector
    fields: FieldSelector
    selectable: tuple[str, ...]

    @property
    def everything(self) -> bool:
        """Whether it selects all objects."""
        return not self.labels.requirements and not self.fields.terms

    def matches(self, entry: Entry) -> bool:
        """Whether it selects a stored object."""
        if self.everything:
            return True
        known = objects.selector_fields(entry, self.selectable)
        return self.labels.matches(known.labels) and self.fields.matches(known.fields.__getitem__)


def selection(resource: Resource, query: Mapping[str, str], name: str = "") -> Selection:
    """The selection a query asks for; `name` narrows it to one object."""
    try:
        labels = parse_labels(query.get("labelSelector", ""))
        fields = parse_fields(query.get("fieldSelector", ""))
    except InvalidSelector as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    if name:
        fields = FieldSelector((*fields.terms, ("metadata.name", name, True)))
    unknown = sorted(fields.paths - set(resource.selectable))
    if unknown:
        raise bad_request(f"field label not supported: {unknown[0]}")
    return Selection(labels, fields, resource.selectable)
