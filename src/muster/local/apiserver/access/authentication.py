"""Who is asking: a user's name and groups, and whom an administrator may stand in for.

`credentials.py` and `tokens.py` make a `User` from a token; `rbac.py` decides by it. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from muster.local.apiserver import api_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.meta import Raw

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ACCOUNTS = "system:serviceaccounts"
_ANONYMOUS = "system:anonymous"
_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"


@dataclass(frozen=True)
class User:
    """Somebody the server knows."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all_powerful(self) -> bool:
        """Members of this group are asked nothing, so that nobody can lock the admin out."""
        return MASTERS in self.groups

    def info(self) -> Raw:
        """The user as reviews show it."""
        found: Raw = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {key: list(values) for key, values in self.extra.items()},
        }
        return {key: value for key, value in found.items() if value}


INTERNAL_USER = User("")
"""Who the server's own calls are made by."""


def service_account(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    """The user that a pod's token stands for."""
    groups = (*_account_groups(namespace), AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups, uid, extra or {})


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(_ACCOUNT) and namespace and name else None


def _account_groups(namespace: str) -> tuple[str, str]:
    return ACCOUNTS, f"{ACCOUNTS}:{namespace}"


def impersonated(headers: Iterable[tuple[str, str]]) -> User | None:
    """The user that a request asks to be answered as; None if it asks for itself."""
    name, uid, groups = "", "", list[str]()
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        match header.lower():
            case "impersonate-user":
                name = value
            case "impersonate-uid":
                uid = value
            case "impersonate-group":
                groups.append(value)
            case other if other.startswith(_EXTRA):
                key = unquote(other.removeprefix(_EXTRA))
                extra[key] = (*extra.get(key, ()), value)
            case _:
                pass
    if not name:
        if uid or groups or extra:
            raise api_errors.bad_request("requested a group, uid or extra without a user to be")
        return None
    account = account_of(name)
    if account and not groups:
        groups = list(_account_groups(account[0]))
    if name != _ANONYMOUS and AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return User(name, tuple(groups), uid, extra)
