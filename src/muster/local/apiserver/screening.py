"""The first look at an object that a client sends: is it of the shape its kind has?

Pure; called by `verbs.py` before admission, which may then rely on the types. Fields nobody knows
are dropped and, as the client asked, reported or refused; a CRD's defaults are written; what is
wrong is a 400 for built-in kinds (they do not decode) and a 422 for custom ones (they do not fit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api import schemas
from muster.local.apiserver import status, structural

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.api.schemas import Schema
    from muster.errors import Refusal
    from muster.local.apiserver.registry import Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def schema_of(resource: Resource) -> Schema | None:
    """The shape of a resource's objects."""
    if resource.custom:
        return schemas.Schema(_without_metadata(resource.schema)) if resource.schema else None
    return schemas.of(resource.group, resource.version, resource.kind)


def _without_metadata(schema: Raw) -> Raw:
    """A CRD may say `metadata: {type: object}`; what metadata holds is not the CRD's to say."""
    properties = {k: v for k, v in schema.get("properties", {}).items() if k != "metadata"}
    return {**schema, "properties": properties}


def screen(resource: Resource, obj: Raw, strictness: str = "") -> tuple[str, ...]:
    """Check and complete an object in place; returns warnings about fields that were dropped."""
    if strictness not in ("", "Ignore", "Warn", "Strict"):
        cause = status.not_supported(
            "fieldValidation", strictness, ("", "Ignore", "Strict", "Warn")
        )
        raise status.invalid("meta.k8s.io", "CreateOptions", "", [cause])
    schema = schema_of(resource)
    if schema is None:
        return ()
    unknown = _screen_metadata(resource, obj)
    unknown += structural.prune(obj, schema, top=True)
    if unknown and strictness == "Strict":
        told = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise _unreadable(resource, f"strict decoding error: {told}")
    if resource.custom:
        structural.fill_defaults(obj, schema)
    causes = structural.check(obj, schema)
    if causes and resource.custom:
        name = str(obj["metadata"].get("name") or "")
        raise status.invalid(resource.group, resource.kind, name, causes)
    if causes:
        raise _undecodable(resource, causes[0])
    return tuple(f'unknown field "{path}"' for path in unknown) if strictness != "Ignore" else ()


def _screen_metadata(resource: Resource, obj: Raw) -> list[str]:
    """Custom objects too have the metadata every object has."""
    known = schemas.definitions().get(_META)
    if not resource.custom or known is None:
        return []
    schema = schemas.Schema(known, schemas.definitions())
    unknown = structural.prune(obj["metadata"], schema, "metadata")
    causes = structural.check(obj["metadata"], schema, "metadata")
    if causes:
        raise _undecodable(resource, causes[0])
    return unknown


def _undecodable(resource: Resource, cause: status.Cause) -> Refusal:
    return _unreadable(
        resource, f"json: cannot unmarshal into field {cause.field}: {cause.message}"
    )


def _unreadable(resource: Resource, why: str) -> Refusal:
    kind = resource.kind
    return status.bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    )
