"""ConfigMap: checks of keys, size and immutability, columns. Secrets share the checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, forbidden_field, invalid_value, too_long
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, fields

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.meta import Raw

_MAX_SIZE = 1024 * 1024  # Kubernetes' limit, a little below the largest value of etcd
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"


def _check(config: Raw) -> Causes:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in data:
        yield from check_key(key, "data")
        if key in binary:
            yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from check_key(key, "binaryData")
    yield from check_size("[]", [*data.values(), *binary.values()])


def check_key(key: str, field: str) -> Causes:
    """The cause for an invalid key of the data in `field`."""
    path = f"{field}[{key}]"
    if len(key) > 253:
        yield invalid_value(path, key, "must be no more than 253 characters")
    elif not _KEY.fullmatch(key):
        yield invalid_value(path, key, _KEY_RULE)
    elif key in (".", ".."):
        yield invalid_value(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid_value(path, key, "must not start with '..'")


def check_size(field: str, values: Iterable[str]) -> Causes:
    """The cause for more data than an object may hold."""
    if sum(len(value) for value in values) > _MAX_SIZE:
        yield too_long(field, _MAX_SIZE)


def check_immutable(new: Raw, old: Raw) -> Causes:
    """The causes for changes of a config map or secret that was made immutable."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden_field("immutable", _IMMUTABLE)
    for name in ("data", "binaryData"):
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield forbidden_field(name, _IMMUTABLE)


def _count(config: Raw, now: datetime) -> int:
    return len(fields(config, "data")) + len(fields(config, "binaryData"))


CONFIG_MAPS = Resource(
    "", "v1", "configmaps", "ConfigMap", short=("cm",),
    strategy=Strategy(
        check=_check,
        check_update=check_immutable,
        counted_as="configmaps",
        columns=NAME | {"Data": _count} | AGE,
    ),
)  # fmt: skip
