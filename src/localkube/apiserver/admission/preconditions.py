"""Checks that a write is about the stored object: its kind, name, uid and revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver import api_errors, causes
from localkube.apiserver.schema.decoding import check_kind, check_name, ensure_metadata

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from localkube.apiserver.http.requests import Call

# Field, its name in messages, and what a mismatch means.
_PRECONDITIONS = (
    ("uid", "UID", "deleted and then recreated"),
    ("resourceVersion", "ResourceVersion", "modified"),
)


def check_patched(call: Call, new: Raw, old: Raw, *, strategic: bool) -> None:
    """A patched object must still be of its kind.

    A patch may remove the kind. A strategic merge patch may remove the version too, because the
    real server applies it to a typed struct.
    """
    if call.resource.custom:
        _check_custom(call, new)
    else:
        missing = {name: old[name] for name in ("kind", "apiVersion") if not new.get(name)}
        if "apiVersion" in missing and not strategic:
            check_name(call, {})  # without a version the real server finds no name
        new |= missing
        same = new["kind"] == old["kind"] and new["apiVersion"] == old["apiVersion"]
        if not same or not isinstance(new.get("metadata"), dict | None):
            raise _undecodable(call)
    check_kind(call.resource, new)
    ensure_metadata(new)


def _check_custom(call: Call, new: Raw) -> None:
    version, expected = new.get("apiVersion"), call.resource.api_version
    if not new.get("kind"):
        raise _undecodable(call)
    if version and version != expected:
        cause = causes.invalid("apiVersion", version, f"must be {expected}")
        group = str(version).rpartition("/")[0]
        raise api_errors.invalid(group, str(new["kind"]), call.route.name, [cause])


def _undecodable(call: Call) -> StatusError:
    detail = f"unable to decode the result as {call.resource.kind}"
    cause = causes.invalid("patch", call.body.decode(errors="replace"), detail)
    return api_errors.invalid("", "", "", [cause])


def check_apply_creates(call: Call, meta: Raw) -> None:
    """An apply that creates an object must carry its name and no uid."""
    if meta.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing"
            " object was found"
        )
        raise conflict(call, why)
    check_name(call, meta)


def check_identity(call: Call, new: Raw, old: Raw) -> None:
    """An update that names a revision or a uid changes only that object."""
    version = new["metadata"].get("resourceVersion")
    # A body without a revision overwrites whatever is stored.
    if version and str(version) != old["metadata"]["resourceVersion"]:
        raise conflict(call)
    uid, actual = new["metadata"].get("uid"), old["metadata"]["uid"]
    if uid and uid != actual and call.route.verb != "patch":
        raise conflict(call, api_errors.precondition_failed("UID", uid, actual))


def check_preconditions(call: Call, options: Raw, obj: Raw) -> None:
    """A deletion that names a uid or a revision deletes only that object."""
    resource, preconditions = call.resource, options.get("preconditions") or {}
    for field, word, meaning in _PRECONDITIONS:
        expected, actual = preconditions.get(field), obj["metadata"][field]
        if not expected or expected == actual:
            continue
        if resource.strategy.deletion.storage_preconditions:
            raise conflict(call, api_errors.precondition_failed(word, expected, actual))
        why = (
            f"the {word} in the precondition ({expected}) does not match the {word} in record"
            f" ({actual}). The object might have been {meaning}"
        )
        raise api_errors.conflict(resource.group, resource.kind, call.route.name, why)


def object_not_found(call: Call) -> StatusError:
    """The object of the call does not exist."""
    return api_errors.not_found(call.resource.group, call.resource.plural, call.route.name)


def conflict(call: Call, why: str = api_errors.CHANGED) -> StatusError:
    """The object of the call has changed, or was replaced by another object."""
    return api_errors.conflict(call.resource.group, call.resource.plural, call.route.name, why)
