"""What a request says about the object it means: kind, namespace, name, uid, revision.

Pure; called by `verbs.py`. What does not hold is refused, so that nobody changes another object
than the one they have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.schema.decoding import check_kind

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.errors import StatusError
    from muster.local.apiserver.http.requests import Call

_PRECONDITIONS = (
    ("uid", "UID", "deleted and then recreated"),
    ("resourceVersion", "ResourceVersion", "modified"),
)


def check_body(call: Call, obj: Raw) -> None:
    """The body must be of the kind, version, namespace and name that the path says."""
    check_kind(call.resource, obj)
    check_namespace_and_name(call, obj)


def check_namespace_and_name(call: Call, obj: Raw) -> None:
    """The body must be of the namespace and name that the path says."""
    resource, route, meta = call.resource, call.route, ensure_metadata(obj)
    namespace = meta.get("namespace") or ""
    if resource.namespaced and namespace not in ("", route.namespace):
        raise api_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not resource.namespaced:
        meta.pop("namespace", None)
    if route.verb == "update" or (route.verb == "patch" and meta.get("name")):
        check_name(call, meta)


def ensure_metadata(obj: Raw) -> Raw:
    """An object's metadata, made if missing."""
    meta = obj["metadata"] = {} if obj.get("metadata") is None else obj["metadata"]
    if not isinstance(meta, dict):
        raise api_errors.bad_request("metadata must be an object")
    return meta


def check_patched(call: Call, new: Raw, old: Raw, *, typed: bool) -> None:
    """A patch leaves the object what it is.

    What it says of kind and version may be gone: the former can do without, and both can if the
    patch was `typed`, merged by somebody who knew them.
    """
    if call.resource.custom:
        _check_custom(call, new)
    else:
        told = {name: old[name] for name in ("kind", "apiVersion") if not new.get(name)}
        if "apiVersion" in told and not typed:
            check_name(call, {})  # a version that nobody knows shows no name
        new |= told
        same = new["kind"] == old["kind"] and new["apiVersion"] == old["apiVersion"]
        if not same or not isinstance(new.get("metadata"), dict | None):
            raise _undecodable(call)
    check_kind(call.resource, new)
    ensure_metadata(new)


def _check_custom(call: Call, new: Raw) -> None:
    version, wanted = new.get("apiVersion"), call.resource.api_version
    if not new.get("kind"):
        raise _undecodable(call)
    if version and version != wanted:
        cause = api_errors.invalid_value("apiVersion", version, f"must be {wanted}")
        group = str(version).rpartition("/")[0]
        raise api_errors.invalid(group, str(new["kind"]), call.route.name, [cause])


def _undecodable(call: Call) -> StatusError:
    told = f"unable to decode the result as {call.resource.kind}"
    cause = api_errors.invalid_value("patch", call.body.decode(errors="replace"), told)
    return api_errors.invalid("", "", "", [cause])


def check_name(call: Call, meta: Raw) -> None:
    """What is sent about an object must name it."""
    name, wanted = meta.get("name") or "", call.route.name
    if not name:
        raise api_errors.bad_request(
            f"the name of the object ({wanted} based on URL) was undeterminable: name must be"
            " provided"
        )
    if name != wanted:
        raise api_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        )


def check_apply_creates(call: Call, meta: Raw) -> None:
    """What is applied to nothing must name the object to be made, and none that was."""
    if meta.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing"
            " object was found"
        )
        raise conflict(call, why)
    check_name(call, meta)


def check_identity(call: Call, new: Raw, old: Raw) -> None:
    """A writer that names a revision or a uid means exactly that object."""
    version = new["metadata"].get("resourceVersion")
    if version and str(version) != old["metadata"]["resourceVersion"]:
        raise conflict(call)
    uid = new["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"] and call.route.verb != "patch":
        raise conflict(call, _failed("UID", uid, old, "uid"))


def check_preconditions(call: Call, options: Raw, obj: Raw) -> None:
    """A deletion that names a uid or a revision means exactly that object."""
    wanted = options.get("preconditions") or {}
    for field, told, meaning in _PRECONDITIONS:
        if wanted.get(field) and wanted[field] != obj["metadata"][field]:
            if call.resource.collection == "namespaces":
                raise conflict(call, _failed(told, wanted[field], obj, field))
            why = (
                f"the {told} in the precondition ({wanted[field]}) does not match the {told}"
                f" in record ({obj['metadata'][field]}). The object might have been {meaning}"
            )
            resource = call.resource
            raise api_errors.conflict(resource.group, resource.kind, call.route.name, why)


def object_not_found(call: Call) -> StatusError:
    """There is no such object."""
    return api_errors.not_found(call.resource.group, call.resource.plural, call.route.name)


def conflict(call: Call, why: str = api_errors.CHANGED) -> StatusError:
    """The object is not, or no longer, the one that was meant."""
    return api_errors.conflict(call.resource.group, call.resource.plural, call.route.name, why)


def _failed(told: str, wanted: str, obj: Raw, field: str) -> str:
    return (
        f"Precondition failed: {told} in precondition: {wanted}, {told} in object meta:"
        f" {obj['metadata'][field]}"
    )
