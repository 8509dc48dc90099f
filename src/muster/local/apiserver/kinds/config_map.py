"""What config maps and secrets may not hold.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

import msgspec

from muster.local.apiserver import api_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_LARGEST = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_NEEDED = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_LOGIN = ("username", "password")
_ACCOUNT = "kubernetes.io/service-account.name"


def config_map(config: Raw) -> Iterator[Cause]:
    """What is wrong with a config map."""
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in data:
        yield from _key(key, "data")
        if key in binary:
            yield api_errors.invalid_value(
                f"data[{key}]", key, "duplicate of key present in binaryData"
            )
    for key in binary:
        yield from _key(key, "binaryData")
    yield from _size("[]", [*data.values(), *binary.values()])


def secret(secret: Raw) -> Iterator[Cause]:
    """What is wrong with a secret."""
    data, kind = secret.get("data") or {}, str(secret.get("type") or "")
    for key in data:
        yield from _key(key, "data")
    yield from _size("data", data.values())
    needed = [key for key in _NEEDED.get(kind, ()) if key not in data]
    if kind == "kubernetes.io/basic-auth" and not any(key in data for key in _LOGIN):
        needed = list(_LOGIN)
    yield from (api_errors.required(f"data[{key}]") for key in needed)
    if kind.startswith("kubernetes.io/dockerc"):
        for key in _NEEDED[kind]:
            if key in data and not _is_json(data[key]):
                told = "<secret contents redacted>"
                yield api_errors.invalid_value(f"data[{key}]", told, "invalid character in JSON")
    annotations = secret["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield api_errors.required(f"metadata.annotations[{_ACCOUNT}]")


def _key(key: str, field: str) -> Iterator[Cause]:
    path = f"{field}[{key}]"
    if len(key) > 253:
        yield api_errors.invalid_value(path, key, "must be no more than 253 characters")
    elif not _KEY.fullmatch(key):
        yield api_errors.invalid_value(path, key, _KEY_RULE)
    elif key in (".", ".."):
        yield api_errors.invalid_value(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield api_errors.invalid_value(path, key, "must not start with '..'")


def _size(field: str, values: Iterable[str]) -> Iterator[Cause]:
    if sum(len(value) for value in values) > _LARGEST:
        told = f"Too long: may not be more than {_LARGEST} bytes"
        yield api_errors.Cause(field, "FieldValueTooLong", told)


def _is_json(encoded: str) -> bool:
    try:
        msgspec.json.decode(base64.b64decode(encoded))
    except (binascii.Error, msgspec.DecodeError):
        return False
    return True
