"""Credentials: fixed tokens and certificates, and token files that rotate.

The transports call `get` before each request. A rotated token file is read again within seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The kubelet renews a token long before the old one expires, so a few seconds late is early enough.
REREAD_SECONDS = 10.0


class Credential(NamedTuple):
    """The credential of one request: a header, or a client certificate and its key.

    `ca` is the certificate authority to trust if it was renewed since the endpoint was loaded.
    """

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    ca: bytes | None = None

    def __repr__(self) -> str:
        return "Credential()"  # its fields are secrets


ANONYMOUS = Credential()


class CredentialSource:
    """A source of credentials; this one is ready, and never has another one to give."""

    def is_ready(self) -> bool:
        """Whether `get` returns at once; if not, it may run a program."""
        return True

    def get(self) -> Credential:
        raise NotImplementedError

    def reject(self, credential: Credential) -> bool:
        """Report that the server rejected this credential; whether `get` may now give another."""
        return False

    def reread(self) -> bool:
        """Look at changed files now; whether `get` may now give another. Runs no program."""
        return False

    def renewed_ca(self) -> bytes | None:
        """The `ca` of `get`, for requests with other credentials. Runs no program."""
        return None


class StaticCredential(CredentialSource):
    """One fixed credential."""

    def __init__(self, credential: Credential = ANONYMOUS) -> None:
        self._credential = credential

    def get(self) -> Credential:
        return self._credential

    def renewed_ca(self) -> bytes | None:
        return self._credential.ca


class TokenOfUser(CredentialSource):
    """The token of a user, with the certificate authority of a source that follows its files.

    It asks the source for nothing else: a user does not depend on the login of the source's owner.
    """

    def __init__(self, authorization: str, server: CredentialSource) -> None:
        self._authorization, self._server = authorization, server

    def get(self) -> Credential:
        return Credential(self._authorization, ca=self._server.renewed_ca())

    def reread(self) -> bool:
        return self._server.reread()

    def renewed_ca(self) -> bytes | None:
        return self._server.renewed_ca()


class TokenFile(CredentialSource):
    """A token in a file that is renewed from outside, as the kubelet does in every pod."""

    def __init__(
        self, path: Path, fixed: Credential = ANONYMOUS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._fixed, self._clock = path, fixed, clock
        self._token = ""
        self._read_at = float("-inf")

    def get(self) -> Credential:
        if self._clock() - self._read_at >= REREAD_SECONDS:
            self._read()
        return self._current()

    def reject(self, credential: Credential) -> bool:
        self._read()
        return self._current() != credential

    def reread(self) -> bool:
        old = self._token
        self._read()
        return self._token != old

    def renewed_ca(self) -> bytes | None:
        return self._fixed.ca

    def _current(self) -> Credential:
        return self._fixed._replace(authorization=f"Bearer {self._token}")

    def _read(self) -> None:
        try:
            token, problem = self._path.read_text().strip(), "the file is empty"
        except (OSError, UnicodeDecodeError) as error:
            token, problem = "", str(error)
        if token:
            self._token, self._read_at = token, self._clock()
        elif not self._token:  # else it is being rewritten, and the old token may still be valid
            raise ConfigError(f"{self._path}: cannot read the token: {problem}")
