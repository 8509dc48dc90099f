"""Schemas within the schema of a definition, where what is published does not tell their type.

Pure; called by `screening.py`. A schema's `items` and `additionalProperties` are schemas or
something else, and published without any type, so they are walked into from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.api import schemas
from muster.local.apiserver import structural
from muster.local.apiserver.status import bad_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.schemas import Schema
    from muster.local.apiserver.status import Cause

_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_OR_LISTS, _OR_BOOLEANS = ("items",), ("additionalItems", "additionalProperties")


def check(value: Any, schema: Schema, path: str = "") -> Iterator[Cause]:
    """What is wrong with the types below; what no schema knows is taken out, in place."""
    props = schemas.named(_PROPS)
    for part, known, where, key in structural.children(value, schema, path):
        if schema.properties is not props.properties or key not in (*_OR_LISTS, *_OR_BOOLEANS):
            yield from check(part, known, where)
            continue
        if key in _OR_BOOLEANS and not isinstance(part, bool | dict):
            told = f'{where} in body must be a schema or a boolean: "{structural.type_word(part)}"'
            yield bad_type(where, structural.type_word(part), told)
        for inner in part if isinstance(part, list) else [part]:
            if isinstance(inner, dict):
                structural.prune(inner, props, where)
                yield from structural.check(inner, props, where, points=False)
                yield from check(inner, props, where)
