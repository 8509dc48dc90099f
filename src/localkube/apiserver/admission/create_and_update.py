"""Create and update of any kind: metadata, the hooks of the kind in their order, generation.

Pure: the clock, the uid and the random suffix are arguments. Functions own the object they are
given and change it in place; an invalid object is a 422 that names the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, causes, codec
from localkube.apiserver.admission import names
from localkube.apiserver.apply import managed_fields

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Cause
    from localkube.apiserver.resource import Resource


_IMMUTABLE = "field is immutable"
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_SERVER_WRITES = ("uid", "creationTimestamp", *_DELETION)
_SPEC_SUBRESOURCES = ("ephemeralcontainers",)
"""Subresources that write a part of the spec."""
_KEPT = (*_SERVER_WRITES, "generation", "name", "namespace")


Track = Callable[["Raw", "Raw | None", "list[Raw] | None"], "list[Raw]"]
"""From the new object with its defaults, the old object and the `managedFields` of the request to
the `managedFields` that the new object gets."""


class Generated(NamedTuple):
    """The values of a new object that the server generates."""

    now: datetime
    uid: str
    suffix: str


def begin_create(resource: Resource, obj: Raw, namespace: str, track: Track) -> Raw:
    """Give a new object its defaults and owners."""
    meta = obj["metadata"]
    sent = meta.pop("managedFields", None)
    for name in ("selfLink", "uid", "creationTimestamp", *_DELETION, "generation"):
        meta.pop(name, None)
    if resource.namespaced:
        meta["namespace"] = namespace
    drop_status(resource, obj)
    resource.strategy.completion.defaults(obj)
    # Owners are known before the server's own rules complete the object: those own nothing.
    if entries := track(obj, None, sent):
        meta["managedFields"] = entries
    return obj


def finish_create(resource: Resource, obj: Raw, generated: Generated) -> Raw:
    """Give a new object the values that the server generates, and check it."""
    strategy, meta = resource.strategy, obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:58] + generated.suffix  # 63 characters at most
    meta["uid"] = generated.uid
    meta["creationTimestamp"] = timestamp(generated.now)
    if strategy.generation != "none":
        meta["generation"] = 1
    strategy.completion.finish_create(obj, timestamp(generated.now))
    _raise(resource, obj, [*_check(resource, obj), *strategy.checks.create(obj)])
    return obj


def begin_update(resource: Resource, new: Raw, old: Raw, subresource: str, track: Track) -> Raw:
    """Give a changed object its defaults and owners; fields that only the server writes stay as
    they are."""
    strategy = resource.strategy
    sent = new["metadata"].pop("managedFields", None)
    _raise(resource, old, _check_server_fields(new["metadata"], old["metadata"]))
    # The spec is written through the object and the status through its subresource. The other half
    # of the body is ignored, so that two controllers do not overwrite each other.
    if subresource == "status":
        new = _only_status(resource, new, old)
    else:
        restore_status(resource, new, old, subresource)
    new["metadata"].pop("managedFields", None)
    for name in _KEPT:
        new["metadata"].pop(name, None)
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
    requested = new
    if strategy.completion.prepare_update:
        # Owners come from the object as it was requested, with its defaults.
        requested = codec.copy(new)
        strategy.completion.prepare_update(new, old)
        strategy.completion.defaults(requested)
    strategy.completion.defaults(new)
    if entries := track(requested, old, sent):
        new["metadata"]["managedFields"] = entries
    return new


def finish_update(resource: Resource, new: Raw, old: Raw, subresource: str) -> Raw:
    """Complete and check a changed object."""
    strategy = resource.strategy
    strategy.completion.finish_update(new, old, subresource)
    found = [*_check(resource, new)]
    if subresource == "status":
        found += strategy.checks.status(new, old)
    elif not subresource:
        found += [
            causes.invalid(path, codec.at(new, path), _IMMUTABLE)
            for path in strategy.checks.immutable
            if codec.at(new, path) != codec.at(old, path)
        ]
        found += strategy.checks.update(new, old)
    elif subresource in _SPEC_SUBRESOURCES:
        found += strategy.checks.spec(new, old)
    _raise(resource, new, found)
    _check_finalizers(resource, new, old)
    # Controllers compare the generation with status.observedGeneration.
    writes_spec = subresource in ("", *_SPEC_SUBRESOURCES)
    if writes_spec and _generation_fields(resource, new) != _generation_fields(resource, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def drop_status(resource: Resource, obj: Raw) -> None:
    """Remove the status from a new object: only its subresource writes it."""
    if resource.has_status and not resource.strategy.status.on_create:
        obj.pop("status", None)


def restore_status(resource: Resource, new: Raw, old: Raw, subresource: str) -> None:
    """Give a changed object its old status, unless the status is what changes."""
    if resource.has_status and subresource in ("", "finalize"):
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]


def _only_status(resource: Resource, new: Raw, old: Raw) -> Raw:
    result = dict(old)
    result.pop("status", None)
    if "status" in new:
        result["status"] = new["status"]
    result["metadata"] = dict(old["metadata"])
    if not resource.custom:  # as with a real server, only built-in kinds take these too
        kept = resource.strategy.status.keeps.get("f:metadata", {})
        for name in ("labels", "annotations"):
            if f"f:{name}" in kept:
                continue
            result["metadata"].pop(name, None)
            if new["metadata"].get(name):
                result["metadata"][name] = new["metadata"][name]
    return result


def _generation_fields(resource: Resource, obj: Raw) -> Raw:
    """The fields whose change increases the generation: all but metadata and status."""
    strategy = resource.strategy
    if strategy.generation != "spec":
        return {}
    left_out = ("metadata", "apiVersion", "kind", *(("status",) if resource.has_status else ()))
    body = {name: value for name, value in obj.items() if name not in left_out}
    if strategy.generation_metadata:
        body["metadata"] = obj["metadata"].get(strategy.generation_metadata) or {}
    return body


def is_unchanged(new: Raw, old: Raw) -> bool:
    """Whether a write would change nothing."""
    return _comparable(new) == _comparable(old)


def _comparable(obj: Raw) -> Raw:
    # The version of the API is the client's choice and not part of the state. The time of a write
    # that changes nothing is none.
    meta = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    if "managedFields" in meta:
        meta["managedFields"] = managed_fields.without_times(meta["managedFields"])
    return obj | {"metadata": meta, "apiVersion": ""}


# -- checks --------------------------------------------------------------------------------------


def _check(resource: Resource, obj: Raw) -> Iterable[Cause]:
    yield from names.check_metadata(resource.strategy.checks.name, obj["metadata"])
    yield from resource.strategy.checks.always(obj)


def _check_server_fields(new: Raw, old: Raw) -> list[Cause]:
    """The fields of metadata that only the server writes; a client may leave them out."""
    return [
        causes.invalid(f"metadata.{name}", new[name], _IMMUTABLE)
        for name in _SERVER_WRITES
        if new.get(name) is not None and new[name] != old.get(name)
    ]


def _check_finalizers(resource: Resource, new: Raw, old: Raw) -> None:
    """An object being deleted can only lose finalizers."""
    if "deletionTimestamp" not in old["metadata"]:
        return
    before = set(old["metadata"].get("finalizers") or ())
    extra = sorted(set(new["metadata"].get("finalizers") or ()) - before)
    if extra:
        listed = ", ".join(f'"{name}"' for name in extra)
        detail = (
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" []string{{{listed}}}"
        )
        _raise(resource, new, [causes.forbidden("metadata.finalizers", detail)])


def _raise(resource: Resource, obj: Raw, found: Iterable[Cause]) -> None:
    name = str(obj["metadata"].get("name") or "")
    api_errors.raise_if_invalid(resource.stored_group, resource.kind, name, found)
