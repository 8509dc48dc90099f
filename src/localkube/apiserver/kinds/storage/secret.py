"""Secret: plain strings become data, each type requires its keys, columns."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

from localkube.apiserver.api_errors import Causes, invalid_value, required
from localkube.apiserver.kinds.fields import ensure_map, fill
from localkube.apiserver.kinds.storage.config_map import check_immutable, check_key, check_size
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, fields, text_at

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

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


def _check(secret: Raw) -> Causes:
    data, type_ = secret.get("data") or {}, str(secret.get("type") or "")
    for key in data:
        yield from check_key(key, "data")
    yield from check_size("data", data.values())
    missing = [key for key in _REQUIRED_KEYS.get(type_, ()) if key not in data]
    if type_ == "kubernetes.io/basic-auth" and not any(key in data for key in _LOGIN):
        missing = list(_LOGIN)
    yield from (required(f"data[{key}]") for key in missing)
    if type_.startswith("kubernetes.io/dockerc"):
        for key in _REQUIRED_KEYS.get(type_, ()):
            if key in data and not _is_json(data[key]):
                path = f"data[{key}]"
                yield invalid_value(path, _REDACTED, "invalid character in JSON")
    annotations = secret["metadata"].get("annotations") or {}
    if type_ == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")


def _is_json(encoded: str) -> bool:
    try:
        msgspec.json.decode(base64.b64decode(encoded))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return False
    return True


SECRETS = Resource(
    "", "v1", "secrets", "Secret", fields=("type",),
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        immutable=("type",),
        check_update=check_immutable,
        counted_as="secrets",
        columns=NAME | {
            "Type": text_at("type"),
            "Data": lambda secret, now: len(fields(secret, "data")),
        } | AGE,
    ),
)  # fmt: skip
