"""The user of a request: the admin or a service account, or the user they impersonate."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

from localkube.apiserver import api_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

    from kubekit.objects.meta import Raw
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.access.service_account_tokens import Tokens

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ACCOUNTS = "system:serviceaccounts"
_ANONYMOUS = "system:anonymous"
_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"  # followed by an escaped key, so that it may have any characters


@dataclass(frozen=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_admin(self) -> bool:
        """Whether every request is allowed, so that no role can lock the admin out."""
        return MASTERS in self.groups

    def info(self) -> Raw:
        """The user as reviews show it."""
        fields: Raw = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {key: list(values) for key, values in self.extra.items()},
        }
        return {key: value for key, value in fields.items() if value}


INTERNAL_USER = User("")
"""The user of calls that the server makes itself."""

_ADMIN = User("muster-admin", (MASTERS, AUTHENTICATED), "muster-admin")


class Authenticator:
    """Maps the headers of a request to a user."""

    def __init__(self, admin_token: str, tokens: Tokens, authorizer: Authorizer) -> None:
        self._admin_token = admin_token.encode()
        self._tokens = tokens
        self._authorizer = authorizer

    def user(self, headers: CIMultiDictProxy[str]) -> User:
        """The user of a request; 401 without a valid token."""
        token = bearer_token(headers.get("Authorization", ""))
        user = self._token_owner(token) if token else None
        if user is None:
            raise api_errors.error("Unauthorized", "Unauthorized")
        impersonated = _impersonated_user(headers)
        if impersonated is not None:
            self._authorizer.check_impersonation(user, impersonated)
        return impersonated or user

    def _token_owner(self, token: str) -> User | None:
        # Compared in constant time: the duration of an answer must not reveal the token.
        if hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._admin_token):
            return _ADMIN
        return self._tokens.user(token)


def bearer_token(header: str) -> str:
    """The token in an Authorization header; empty if there is none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def service_account(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    """The user of a service account."""
    groups = (*account_groups(namespace), AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups, uid, extra or {})


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(_ACCOUNT) and namespace and name else None


def account_groups(namespace: str) -> tuple[str, str]:
    return ACCOUNTS, f"{ACCOUNTS}:{namespace}"


def _impersonated_user(headers: CIMultiDictProxy[str]) -> User | None:
    """The user named by Impersonate headers; None if there are none."""
    name, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    groups = headers.getall("Impersonate-Group", [])
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            key = unquote(header.lower().removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    try:
        "".join((name, uid, *groups, *chain(*extra.values()))).encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8 arrive as halves of surrogate pairs
        raise api_errors.bad_request("the user to be must be named in UTF-8") from None
    if not name:
        if uid or groups or extra:
            raise api_errors.bad_request("requested a group, uid or extra without a user to be")
        return None
    # Kubernetes adds the groups that every service account, and every known user, is in.
    account = account_of(name)
    if account and not groups:
        groups = list(account_groups(account[0]))
    if name != _ANONYMOUS and AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return User(name, tuple(groups), uid, extra)
