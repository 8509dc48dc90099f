"""ConfigMap: checks of keys and size, immutable ones, columns. Secrets share the checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views.cells import age_of, fields, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.meta import Raw

_MAX_SIZE = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"


def _check(config: Raw) -> api_errors.Causes:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in data:
        yield from check_key(key, "data")
        if key in binary:
            yield api_errors.invalid_value(
                f"data[{key}]", key, "duplicate of key present in binaryData"
            )
    for key in binary:
        yield from check_key(key, "binaryData")
    yield from check_size("[]", [*data.values(), *binary.values()])


def check_key(key: str, field: str) -> api_errors.Causes:
    """The cause for an invalid key of the data in `field`."""
    path = f"{field}[{key}]"
    if len(key) > 253:
        yield api_errors.invalid_value(path, key, "must be no more than 253 characters")
    elif not _KEY.fullmatch(key):
        yield api_errors.invalid_value(path, key, _KEY_RULE)
    elif key in (".", ".."):
        yield api_errors.invalid_value(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield api_errors.invalid_value(path, key, "must not start with '..'")


def check_size(field: str, values: Iterable[str]) -> api_errors.Causes:
    """The cause for more data than an object may hold."""
    if sum(len(value) for value in values) > _MAX_SIZE:
        yield api_errors.too_long(field, _MAX_SIZE)


def check_immutable(new: Raw, old: Raw) -> api_errors.Causes:
    """The causes for changes of a config map or secret that was made immutable."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield api_errors.forbidden_field("immutable", _IMMUTABLE)
    for name in ("data", "binaryData"):
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield api_errors.forbidden_field(name, _IMMUTABLE)


def _cells(config: Raw, now: datetime) -> list[Any]:
    count = len(fields(config, "data")) + len(fields(config, "binaryData"))
    return [name_of(config), count, age_of(config, now)]


CONFIG_MAPS = Resource(
    "", "v1", "configmaps", "ConfigMap", short=("cm",),
    strategy=Strategy(
        check=_check,
        check_update=check_immutable,
        counted_as="configmaps",
        columns=("Name", "Data", "Age"),
        cells=_cells,
    ),
)  # fmt: skip
