"""Server-side printing: an object or a list as a Table, or as metadata only."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from localkube.apiserver import codec
from localkube.apiserver.views.cells import NAME, age

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.http.requests import Answer, Call
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.views.cells import Cell


def render(answer: Answer, call: Call, now: datetime) -> bytes:
    """The body of an answer in the shape that the client asked for."""
    is_list = call.route.verb in ("list", "deletecollection") and not call.route.name
    if answer.code >= 300 or not (answer.resource or is_list):
        return answer.body
    body = codec.decode(answer.body)
    items = body["items"] if is_list else [body]
    meta = _list_meta(body)
    if is_list:  # without an empty continue token
        meta = {name: value for name, value in body["metadata"].items() if value != ""}
    if call.form.shape == "Table":
        include = call.query.get("includeObject", "Metadata")
        return codec.dump(_table(call.resource, items, meta, include, now))
    shown = [_metadata_only(item) for item in items]
    whole = _meta_object("PartialObjectMetadataList", meta, items=shown) if is_list else shown[0]
    return codec.dump(whole)


def event_renderer(call: Call, clock: Callable[[], datetime]) -> Callable[[bytes], bytes]:
    """A function from an object of a watch to its shape. Only the first table names its columns."""
    if call.form.shape != "Table":
        return lambda value: codec.dump(_metadata_only(codec.decode(value)))
    include = call.query.get("includeObject", "Metadata")
    first = True

    def show(value: bytes) -> bytes:
        nonlocal first
        obj = codec.decode(value)
        table = _table(call.resource, [obj], _list_meta(obj), include, clock())
        if not first:  # clients keep the columns of the first table
            table["columnDefinitions"] = None
        first = False
        return codec.dump(table)

    return show


def _list_meta(obj: Raw) -> Raw:
    return {"resourceVersion": obj["metadata"].get("resourceVersion", "")}


def _meta_object(kind: str, metadata: Raw, **fields: Any) -> Raw:
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, **fields}


def _metadata_only(obj: Raw) -> Raw:
    return _meta_object("PartialObjectMetadata", obj["metadata"])


def _table(resource: Resource, items: list[Raw], meta: Raw, include: str, now: datetime) -> Raw:
    columns = _columns(resource)
    rows = []
    for item in items:
        stored = resource.strategy.forms.to_stored(item)
        row: Raw = {"cells": [cell(stored, now) for _, cell in columns]}
        if conditions := resource.strategy.table.conditions(item):
            row["conditions"] = conditions
        if include == "Object":
            row["object"] = item
        elif include != "None":
            row["object"] = _metadata_only(resource.strategy.table.shown(item))
        rows.append(row)
    return _meta_object("Table", meta, columnDefinitions=[c for c, _ in columns], rows=rows)


def _columns(resource: Resource) -> list[tuple[Raw, Cell]]:
    """The definition of each column, and the function from an object to its cell."""
    if not resource.printer_columns:
        return [(_column(name), cell) for name, cell in resource.strategy.table.columns.items()]
    custom = [
        (
            {field: column.get(field, unset) for field, unset in _COLUMN.items()},
            partial(_custom_cell, column["jsonPath"], column["type"]),
        )
        for column in resource.printer_columns
    ]
    return [(_column("Name"), NAME["Name"]), *custom]


_COLUMN: Raw = {"name": "", "type": "string", "format": "", "description": "", "priority": 0}


def _column(name: str) -> Raw:
    wide, name = name.endswith("+"), name.removesuffix("+")
    format_ = "name" if name == "Name" else ""
    return _COLUMN | {"name": name, "format": format_, "priority": int(wide)}


# -- printer columns of CRDs ---------------------------------------------------------------------


def _custom_cell(path: str, type_: str, obj: Raw, now: datetime) -> Any:
    values = jsonpath(obj, path)
    if not values:
        return None
    value = values[0]
    if type_ == "date":
        return age(value, now) if isinstance(value, str) else None
    if type_ == "string":
        return value if isinstance(value, str) else codec.dump(value).decode()
    return value


# One step of a path. kubectl's JSONPath has more, which printer columns do not use.
_STEP = re.compile(
    r"""\.((?:\\.|[^.\[\\])+)              # .field, with escaped dots
      | \[(-?[0-9]{0,18}):(-?[0-9]{0,18})\]  # [a:b]
      | \[(-?[0-9]{1,18})\]                # [n]
      | \[\*\]
      | \['([^']*)'\]
      | \[\?\(@\.([\w.]+)\s*==\s*['"]([^'"]*)['"]\)\]""",
    re.VERBOSE,
)


def jsonpath(obj: Any, path: str) -> list[Any]:
    """The values at a JSONPath; none if the path has a step that printer columns do not use."""
    values, at = [obj], 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return []
        at = step.end()
        values = [part for value in values for part in _step(value, step)]
    return values


def _step(value: Any, step: re.Match[str]) -> list[Any]:
    name, low, high, index, quoted, field, expected = step.groups()
    if name is not None or quoted is not None:
        key = quoted if quoted is not None else re.sub(r"\\(.)", r"\1", name)
        return [value[key]] if isinstance(value, dict) and key in value else []
    if not isinstance(value, list):
        return []
    if index is not None:
        return value[int(index) :][:1]
    if low is not None:
        return value[int(low) if low else None : int(high) if high else None]
    if field is not None:
        return [v for v in value if codec.text(codec.at(v, field)) == expected]
    return value
