"""ConfigMap and Secret: checks of keys, size and immutability; a secret's types; columns."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import msgspec

from localkube.apiserver import causes, rules
from localkube.apiserver.kinds.field_rules import ensure_map, fill
from localkube.apiserver.resource import Resource
from localkube.apiserver.views.cells import AGE, NAME, fields, text_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes


# -- ConfigMap -----------------------------------------------------------------------------------

_MAX_SIZE = 1024 * 1024  # Kubernetes' limit, a little below the largest value of etcd
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"


def _check_config_map(config: Raw) -> Causes:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in data:
        yield from _check_key(key, "data")
        if key in binary:
            yield causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from _check_key(key, "binaryData")
    yield from _check_size("[]", [*data.values(), *binary.values()])


def _check_key(key: str, field: str) -> Causes:
    """The cause for an invalid key of the data in `field`."""
    path = f"{field}[{key}]"
    if len(key) > 253:
        yield causes.invalid(path, key, "must be no more than 253 characters")
    elif not _KEY.fullmatch(key):
        yield causes.invalid(path, key, _KEY_RULE)
    elif key in (".", ".."):
        yield causes.invalid(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield causes.invalid(path, key, "must not start with '..'")


def _check_size(field: str, values: Iterable[str]) -> Causes:
    """The cause for more data than an object may hold."""
    if sum(len(value) for value in values) > _MAX_SIZE:
        yield causes.too_long(field, _MAX_SIZE)


def _check_immutable(new: Raw, old: Raw) -> Causes:
    """The causes for changes of a config map or secret that was made immutable."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield causes.forbidden("immutable", _IMMUTABLE)
    for name in ("data", "binaryData"):
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield causes.forbidden(name, _IMMUTABLE)


CONFIG_MAPS = Resource(
    "", "v1", "configmaps", "ConfigMap", short=("cm",),
    strategy=rules.Strategy(
        checks=rules.Checks(always=_check_config_map, update=_check_immutable),
        quota=rules.Quota(counted_as="configmaps"),
        table=rules.Table(NAME | {
            "Data": lambda cm, now: len(fields(cm, "data")) + len(fields(cm, "binaryData"))
        } | AGE),
    ),
)  # fmt: skip


# -- Secret --------------------------------------------------------------------------------------

_REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_LOGIN = ("username", "password")
_ACCOUNT = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"


def _defaults(secret: Raw) -> None:
    """Encode `stringData` into `data`: the field is write-only, so that people need no base64."""
    fill(secret, type="Opaque")
    for key, text in (secret.pop("stringData", None) or {}).items():
        ensure_map(secret, "data")[key] = base64.b64encode(text.encode()).decode()


def _check_secret(secret: Raw) -> Causes:
    data, type_ = secret.get("data") or {}, str(secret.get("type") or "")
    for key in data:
        yield from _check_key(key, "data")
    yield from _check_size("data", data.values())
    missing = [key for key in _REQUIRED_KEYS.get(type_, ()) if key not in data]
    if type_ == "kubernetes.io/basic-auth" and not any(key in data for key in _LOGIN):
        missing = list(_LOGIN)
    yield from (causes.required(f"data[{key}]") for key in missing)
    if type_.startswith("kubernetes.io/dockerc"):
        for key in _REQUIRED_KEYS.get(type_, ()):
            if key in data and not _is_json(data[key]):
                yield causes.invalid(f"data[{key}]", _REDACTED, "invalid character in JSON")
    annotations = secret["metadata"].get("annotations") or {}
    if type_ == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield causes.required(f"metadata.annotations[{_ACCOUNT}]")


def _is_json(encoded: str) -> bool:
    try:
        msgspec.json.decode(base64.b64decode(encoded))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return False
    return True


SECRETS = Resource(
    "", "v1", "secrets", "Secret", fields=("type",),
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_defaults),
        checks=rules.Checks(always=_check_secret, immutable=("type",), update=_check_immutable),
        quota=rules.Quota(counted_as="secrets"),
        table=rules.Table(NAME | {
            "Type": text_at("type"),
            "Data": lambda secret, now: len(fields(secret, "data")),
        } | AGE),
    ),
)  # fmt: skip
