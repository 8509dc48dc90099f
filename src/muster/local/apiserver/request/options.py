"""The options in a request's query, checked as the real server does: before anything is done.

Pure; called by `lists.py`, `watching.py` and, for tables and everything that writes, by `serve.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.apiserver.status import Cause

_WRITES = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}
_STRICTNESS = ("Ignore", "Warn", "Strict")
_LONGEST_MANAGER = 128
_MATCH, _INITIAL = "resourceVersionMatch", "sendInitialEvents"


def check_write(verb: str, query: Mapping[str, str], *, apply: bool) -> None:
    """Refuse options that mean nothing for a write: above all a dry run that would not be one."""
    if verb not in _WRITES:
        return
    causes = []
    dry, strictness = query.get("dryRun"), query.get("fieldValidation", "")
    if dry not in (None, "", "All"):
        causes.append(status.not_supported("dryRun", [dry], ("All",)))
    if strictness and strictness not in _STRICTNESS and not verb.startswith("delete"):
        causes.append(
            status.not_supported("fieldValidation", strictness, ("", *sorted(_STRICTNESS)))
        )
    causes += _check_manager(query.get("fieldManager", ""))
    if verb == "patch" and query.get("force") and not apply:
        causes.append(status.forbidden_field("force", "may not be specified for non-apply patch"))
    if causes:
        raise status.invalid("meta.k8s.io", _WRITES[verb], "", causes)


def _check_manager(name: str) -> list[Cause]:
    if len(name.encode()) > _LONGEST_MANAGER:
        return [status.too_long("fieldManager", _LONGEST_MANAGER)]
    if not name.isprintable():
        return [status.bad_value("fieldManager", name, "should only contain printable characters")]
    return []


def check_table(query: Mapping[str, str]) -> None:
    """Refuse to put what nobody knows into the rows of a table."""
    include = query.get("includeObject", "")
    if include not in ("", "None", "Metadata", "Object"):
        raise status.bad_request(f"unrecognized includeObject value: {include!r}")


def check_list(query: Mapping[str, str]) -> None:
    """Refuse options that contradict each other."""
    match, version = query.get(_MATCH, ""), query.get("resourceVersion", "")
    causes: list[Cause] = []
    if match:
        causes += _check_match(match, version, paged=bool(query.get("continue")))
    if query.get(_INITIAL):
        causes.append(status.forbidden_field(_INITIAL, f"{_INITIAL} is forbidden for list"))
    _refuse(causes)
    if query.get("continue") and version not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")


def _check_match(match: str, version: str, *, paged: bool) -> list[Cause]:
    causes = []
    if paged:
        causes.append(
            status.forbidden_field(_MATCH, f"{_MATCH} is forbidden when continue is provided")
        )
    if not version:
        causes.append(
            status.forbidden_field(
                _MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"
            )
        )
    if match not in ("Exact", "NotOlderThan"):
        causes.append(status.not_supported(_MATCH, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        told = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
        causes.append(status.forbidden_field(_MATCH, told))
    return causes


def check_watch(query: Mapping[str, str]) -> None:
    """Refuse options that contradict each other, or mean nothing for a watch."""
    match, initial = query.get(_MATCH, ""), query.get(_INITIAL, "")
    causes = []
    if match and not initial:
        told = f"{_MATCH} is forbidden for watch unless {_INITIAL} is provided"
        causes.append(status.forbidden_field(_MATCH, told))
    if initial and not match:
        told = f"{_INITIAL} requires setting {_MATCH} to NotOlderThan"
        causes.append(status.forbidden_field(_MATCH, told))
    if match not in ("", "NotOlderThan"):
        causes.append(status.not_supported(_MATCH, match, ("NotOlderThan",)))
    if query.get("continue"):
        causes.append(status.forbidden_field("continue", "continue is forbidden for watch"))
    _refuse(causes)


def _refuse(causes: list[Cause]) -> None:
    if causes:
        raise status.invalid("meta.k8s.io", "ListOptions", "", causes)
