"""Answers without what is accidental, and without what deliberately differs.

Accidents are times, ages, uids, revisions, tokens, generated names, addresses and node ports that a
server draws, the case's namespace, and bookmarks that a watch gets because time has passed.
Everything else that is taken out is an `Exclusion`; docs/localkube/apiserver.md has a line for each
by name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.localkube.conformance.transcript import Case, Reply

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_AGE = re.compile(r"\d{1,2}s|\d{3}d|\d+y(\d+d)?")
_DRAWN_ADDRESS = re.compile(r"(?<![\d.])10\.0\.[1-9]\d*\.\d+")
_DRAWN_PORT = re.compile(r"(?<=:)3[0-2]\d{3}(?=/)")
_FIRST_DRAWN_PORT = 30086
_REVISIONS = re.compile(
    r"\(\d+\)|(?<=version: )\d+|(?<=in precondition: )\d+|(?<=in object meta: )\d+"
)


class Exclusion(NamedTuple):
    """Something that deliberately differs, and how it is taken out of an answer."""

    name: str
    remove: Callable[[Any], None]
    """Works in place on every object (every JSON map) of an answer, innermost first, and on the
    path of the request with the warnings of its answer."""
    always: bool = True


def normalized(replies: list[Reply], case: Case, namespace: str) -> list[tuple[int, Any, Any, str]]:
    """What two servers must agree on."""
    named = set(case.differs)
    assert named <= {e.name for e in EXCLUSIONS}, f"{case.name}: unknown exclusion"
    chosen = [e for e in EXCLUSIONS if e.always or e.name in named]
    shown = []
    for reply in replies:
        body = _without_accidents(_on_time(reply.body), namespace)
        warnings = [w.replace(namespace, "<ns>") for w in reply.warnings]
        header = {"path": reply.path, "warnings": warnings}
        for obj in (*_objects(body), header):
            for exclusion in chosen:
                exclusion.remove(obj)
        shown.append((reply.status, body, header.get("warnings", []), reply.retry_after))
    return shown


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every map in a value, the inner ones first."""
    if isinstance(value, dict):
        for part in list(value.values()):
            yield from _objects(part)
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _objects(part)


# -- accidents -----------------------------------------------------------------------------------


def _without_accidents(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return _plain_object({k: _without_accidents(v, namespace) for k, v in value.items()})
    if isinstance(value, list):
        return [_without_accidents(item, namespace) for item in value]
    if isinstance(value, str):
        text = "<age>" if _AGE.fullmatch(value) else value.replace(namespace, "<ns>")
        text = _DRAWN_PORT.sub("<port>", _DRAWN_ADDRESS.sub("<address>", text))
        return _REVISIONS.sub("(<rv>)", _UID.sub("<uid>", _TIME.sub("<time>", text)))
    return value


def _on_time(body: Any) -> Any:
    """A watch without the bookmarks that come when it is time for one."""
    if not isinstance(body, list):
        return body
    events = [event for event in body if not _is_timed(event)]
    return events[0] if len(events) == 1 else events


def _is_timed(event: Any) -> bool:
    if not isinstance(event, dict) or event.get("type") != "BOOKMARK":
        return False
    return "annotations" not in event["object"]["metadata"]


def _plain_object(value: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value.get("resourceVersion"), str) and value["resourceVersion"].isdigit():
        value["resourceVersion"] = "<rv>"
    if value.get("nodePort", 0) >= _FIRST_DRAWN_PORT:
        value["nodePort"] = "<port>"
    if value.get("name") == "https" and value.get("port") == 443:
        value["targetPort"] = "<port of the server>"
    if value.get("continue"):
        value["continue"] = "<token>"
    if isinstance(value.get("managedFields"), list):
        # They are sorted by time, and two writes may be in the same second or not.
        value["managedFields"].sort(key=_identity)
    if str(value.get("token", "")).startswith("ey"):  # a JSON web token
        value["token"] = "<token>"
    if "incomplete" in value:  # the rules of a user, which have no order
        for name in ("resourceRules", "nonResourceRules"):
            value[name] = sorted(value.get(name) or (), key=str)
    prefix = value.get("generateName")
    if prefix and str(value.get("name", "")).startswith(prefix):
        value["name"] = f"{prefix}<suffix>"
    return value


def _identity(entry: dict[str, Any]) -> list[str]:
    return [str(entry.get(k)) for k in ("operation", "manager", "apiVersion", "subresource")]


# -- what deliberately differs -------------------------------------------------------------------


def _managed_fields(obj: dict[str, Any]) -> None:
    obj.pop("managedFields", None)


def _nulls(obj: dict[str, Any]) -> None:
    for name in [name for name, value in obj.items() if value is None]:
        del obj[name]


def _item_kinds(obj: dict[str, Any]) -> None:
    if str(obj.get("kind", "")).endswith("List"):
        for item in obj.get("items") or ():
            item.pop("kind", None)
            item.pop("apiVersion", None)


def _repeated_causes(obj: dict[str, Any]) -> None:
    causes = obj.get("causes")
    if isinstance(causes, list):
        obj["causes"] = [c for i, c in enumerate(causes) if c not in causes[:i]]


_JOB_FIELD = re.compile(r'299 - "unknown field \\"spec\.')


def _job_field_warnings(obj: dict[str, Any]) -> None:
    if "/kubeflow.org/" in str(obj.get("path")) and "warnings" in obj:
        obj["warnings"] = [w for w in obj["warnings"] if not _JOB_FIELD.match(w)]


_STORAGE = re.compile(r"StorageError: invalid object, Code: 4, Key: \S+, .*AdditionalErrorMsg: ")


def _storage_errors(obj: dict[str, Any]) -> None:
    if isinstance(obj.get("message"), str):
        obj["message"] = _STORAGE.sub("", obj["message"])


def _wording(obj: dict[str, Any]) -> None:
    if obj.get("kind") == "Status" or "field" in obj or set(obj) <= {"reason", "message"}:
        obj.pop("message", None)


def _zero_values(obj: dict[str, Any]) -> None:
    for name in [name for name, value in obj.items() if value in ("", 0, {}, [])]:
        del obj[name]


def _volume_protection(obj: dict[str, Any]) -> None:
    left = [f for f in obj.get("finalizers") or () if not f.endswith("-protection")]
    if "finalizers" in obj and left != obj["finalizers"]:
        del obj["finalizers"]


def _crd_at_once(obj: dict[str, Any]) -> None:
    if obj.get("kind") == "CustomResourceDefinition":
        obj.pop("status", None)
        obj.get("metadata", {}).pop("managedFields", None)


def _causes(obj: dict[str, Any]) -> None:
    if obj.get("reason") == "Invalid" and isinstance(obj.get("details"), dict):
        obj["details"].pop("causes", None)


def _column_descriptions(obj: dict[str, Any]) -> None:
    for column in obj.get("columnDefinitions") or ():
        for name in ("description", "type", "format"):
            column.pop(name, None)


EXCLUSIONS = (
    Exclusion("nulls", _nulls),
    Exclusion("item-kinds", _item_kinds),
    Exclusion("repeated-causes", _repeated_causes),
    Exclusion("storage-errors", _storage_errors),
    Exclusion("job-field-warnings", _job_field_warnings),
    Exclusion("managed-fields", _managed_fields, always=False),
    Exclusion("wording", _wording, always=False),
    Exclusion("causes", _causes, always=False),
    Exclusion("crd-at-once", _crd_at_once, always=False),
    Exclusion("zero-values", _zero_values, always=False),
    Exclusion("volume-protection", _volume_protection, always=False),
    Exclusion("column-descriptions", _column_descriptions, always=False),
)
