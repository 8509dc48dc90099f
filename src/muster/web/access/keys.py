"""One-time tokens and sessions as signed text: no list of users, nothing to store.

A token is in the URL that a command prints. It holds for ten minutes and becomes a session in the
cookie of one browser; the server remembers which tokens were used. Both are a random number and a
time, signed with a key. The keys of a local cluster are in a file in its home that only the owner
can read, so every command of the owner can make a token, without asking the daemon.

The key of tokens is new in every run of the server, which forgets the used tokens when it ends.
The key of sessions stays, so that an open page survives `arena down` and `arena up`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import ConfigError
from kubekit.private_files import private_opener, read_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN_SECONDS = 600.0
SESSION_SECONDS = 7 * 86400.0
_CLOCK_SKEW = 60.0
_KEY_BYTES, _ID_BYTES = 32, 16
_MAX_USED = 10_000
_HEAD = struct.Struct(f">{_ID_BYTES}sd")


class Keys(NamedTuple):
    """The keys of one server."""

    sessions: bytes
    tokens: bytes

    @classmethod
    def random(cls) -> Keys:
        return cls(secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The keys in this file; OSError if there is none, ConfigError if it is not ours alone."""
        text = read_private(path)
        return cls(text[:_KEY_BYTES], text[_KEY_BYTES : 2 * _KEY_BYTES])

    @classmethod
    def renew(cls, path: Path) -> Keys:
        """Write a file for a new run of the server: the key of sessions stays."""
        keys = cls.random()
        try:
            former = cls.read(path)
        except (OSError, ConfigError):  # a key that another user knows is worthless
            former = keys
        if len(former.tokens) == _KEY_BYTES:  # else the file was not written whole
            keys = keys._replace(sessions=former.sessions)
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with open(draft, "xb", opener=private_opener) as file:
            file.write(keys.sessions + keys.tokens)
        draft.rename(path)
        return keys


def new_token(keys: Keys, now: float | None = None) -> str:
    """A token for one login within ten minutes."""
    return _sign(keys.tokens, b"token", time.time() if now is None else now)


class Tokens:
    """The tokens of one run of the server, each good for one login."""

    def __init__(self, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = keys.tokens, clock
        self._used: dict[bytes, None] = {}

    def redeem(self, token: str) -> bool:
        """Whether the token is valid; it is not valid a second time."""
        number = _verified(self._key, b"token", token, self._clock(), TOKEN_SECONDS)
        if number is None or number in self._used:
            return False
        self._used[number] = None
        if len(self._used) > _MAX_USED:  # the oldest of so many has expired
            del self._used[next(iter(self._used))]
        return True


class Sessions:
    """Sessions, and the CSRF token of each."""

    def __init__(self, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = keys.sessions, clock

    def new(self) -> str:
        """The value of a new session's cookie."""
        return _sign(self._key, b"session", self._clock())

    def is_valid(self, cookie: str) -> bool:
        session = _verified(self._key, b"session", cookie, self._clock(), SESSION_SECONDS)
        return session is not None

    def csrf(self, identity: str) -> str:
        """The token that changes by this identity (a cookie, a bearer token) must carry."""
        return _text(_mac(self._key, b"csrf", identity.encode()))

    def is_csrf(self, identity: str, token: str) -> bool:
        return hmac.compare_digest(self.csrf(identity).encode(), token.encode())


def _sign(key: bytes, purpose: bytes, now: float) -> str:
    head = _HEAD.pack(secrets.token_bytes(_ID_BYTES), now)
    return _text(head + _mac(key, purpose, head))


def _verified(key: bytes, purpose: bytes, text: str, now: float, seconds: float) -> bytes | None:
    """The random number in a signed text; None if it is not ours or too old."""
    try:
        data = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        return None
    head, mac = data[: _HEAD.size], data[_HEAD.size :]
    if len(head) < _HEAD.size or not hmac.compare_digest(mac, _mac(key, purpose, head)):
        return None
    number: bytes
    number, signed_at = _HEAD.unpack(head)
    return number if -_CLOCK_SKEW <= now - signed_at < seconds else None


def _mac(key: bytes, purpose: bytes, data: bytes) -> bytes:
    return hmac.digest(key, purpose + b"\0" + data, hashlib.sha256)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
