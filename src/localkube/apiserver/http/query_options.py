"""Query options of list, watch and write, and their checks; selectors of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.selectors import (
    FieldSelector,
    InvalidSelector,
    Selector,
    parse_fields,
    parse_labels,
)
from localkube.apiserver import causes, codec
from localkube.apiserver.api_errors import bad_request, raise_if_invalid
from localkube.apiserver.http.requests import MAX_FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localkube.apiserver.causes import Causes
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Entry


_WRITES = {
    "create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions",
    "delete": "DeleteOptions", "deletecollection": "DeleteOptions",
}  # fmt: skip
# Unknown and duplicate fields are ignored, rejected, or (the default) warned of.
_STRICTNESS = ("", "Ignore", "Strict", "Warn")
_MATCH, _INITIAL = "resourceVersionMatch", "sendInitialEvents"


def check_write(verb: str, query: Mapping[str, str], *, apply: bool) -> None:
    """Reject invalid options of a write, above all a misspelled dry run, which would write."""
    if verb in _WRITES:
        raise_if_invalid("meta.k8s.io", _WRITES[verb], "", _write_causes(verb, query, apply))


def _write_causes(verb: str, query: Mapping[str, str], apply: bool) -> Causes:
    dry_run, strictness = query.get("dryRun"), query.get("fieldValidation", "")
    if dry_run not in (None, "", "All"):
        yield causes.not_supported("dryRun", [dry_run], ("All",))
    if strictness not in _STRICTNESS and not verb.startswith("delete"):
        yield causes.not_supported("fieldValidation", strictness, _STRICTNESS)
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > MAX_FIELD_MANAGER:
        yield causes.too_long("fieldManager", MAX_FIELD_MANAGER)
    elif not manager.isprintable():
        yield causes.invalid("fieldManager", manager, "should only contain printable characters")
    if verb == "patch" and query.get("force") and not apply:
        yield causes.forbidden("force", "may not be specified for non-apply patch")


def check_table(query: Mapping[str, str]) -> None:
    """Reject an unknown `includeObject`."""
    include = query.get("includeObject", "")
    if include not in ("", "None", "Metadata", "Object"):
        raise bad_request(f"unrecognized includeObject value: {include!r}")


def check_list(query: Mapping[str, str]) -> None:
    """Reject options that contradict each other."""
    raise_if_invalid("meta.k8s.io", "ListOptions", "", _list_causes(query))
    # The token carries the revision of the first page.
    if query.get("continue") and query.get("resourceVersion", "") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def _list_causes(query: Mapping[str, str]) -> Causes:
    match, version = query.get(_MATCH, ""), query.get("resourceVersion", "")
    if match and query.get("continue"):
        yield causes.forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided")
    if match and not version:
        yield causes.forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        yield causes.not_supported(_MATCH, match, ("Exact", "NotOlderThan", ""))
    if match == "Exact" and version == "0":
        detail = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
        yield causes.forbidden(_MATCH, detail)
    if query.get(_INITIAL):
        yield causes.forbidden(_INITIAL, f"{_INITIAL} is forbidden for list")


def check_watch(query: Mapping[str, str]) -> None:
    """Reject options that contradict each other, or that a watch does not have."""
    raise_if_invalid("meta.k8s.io", "ListOptions", "", _watch_causes(query))


def _watch_causes(query: Mapping[str, str]) -> Causes:
    match, initial = query.get(_MATCH, ""), query.get(_INITIAL, "")
    if match and not initial:
        detail = f"{_MATCH} is forbidden for watch unless {_INITIAL} is provided"
        yield causes.forbidden(_MATCH, detail)
    if initial and not match:
        detail = f"{_INITIAL} requires setting {_MATCH} to NotOlderThan"
        yield causes.forbidden(_MATCH, detail)
    if match not in ("", "NotOlderThan"):
        yield causes.not_supported(_MATCH, match, ("NotOlderThan",))
    if query.get("continue"):
        yield causes.forbidden("continue", "continue is forbidden for watch")


class Selection(NamedTuple):
    """The objects of a collection that a request selects."""

    labels: Selector
    fields: FieldSelector
    selectable: tuple[str, ...]

    @property
    def everything(self) -> bool:
        """Whether all objects are selected."""
        return not self.labels.requirements and not self.fields.terms

    def matches(self, entry: Entry) -> bool:
        """Whether a stored object is selected."""
        if self.everything:  # most lists and watches: no object is decoded
            return True
        values = codec.selector_fields(entry, self.selectable)
        return self.labels.matches(values.labels) and self.fields.matches(values.fields.__getitem__)


def selection(resource: Resource, query: Mapping[str, str], name: str = "") -> Selection:
    """The selection of a query; `name` narrows it to one object."""
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
