"""Credentials and certificate authorities that change on disk while this process runs.

A kubeconfig, the certificates it names and the files of a pod's service account are renewed from
outside: by the kubelet, by cert-manager, by a login command. `reloading` wraps an endpoint so that
its next request uses the new content. The files are looked at every few seconds, and at once when
the server rejects a credential or shows a certificate that is not trusted.

The server stays the same: a file that names another one now does not redirect this process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from kubekit.client.auth.credentials import REREAD_SECONDS, CredentialSource
from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint

    Versions = tuple[tuple[int, ...] | None, ...]


def reloading(
    first: Endpoint, load: Callable[[], Endpoint], clock: Callable[[], float] = time.monotonic
) -> Endpoint:
    """The endpoint `first`, with credentials that follow its files; `load` reads them again."""
    return msgspec.structs.replace(first, credentials=ReloadedCredentials(first, load, clock))


class ReloadedCredentials(CredentialSource):
    """The credentials of an endpoint, loaded again when one of its files has changed."""

    def __init__(
        self, first: Endpoint, load: Callable[[], Endpoint], clock: Callable[[], float]
    ) -> None:
        self._first, self._load, self._clock = first, load, clock
        self._loaded: tuple[CredentialSource, bytes | None] = first.credentials, None
        """The source, and the authority if it was renewed; one value, for readers in threads."""
        self._given: tuple[Credential, Credential] | None = None
        """The last credential of the source, and the same with the renewed authority."""
        self._files = first.files
        self._versions = _versions(first.files)
        self._checked_at = clock()

    def is_ready(self) -> bool:
        return self._loaded[0].is_ready()

    def get(self) -> Credential:
        self._follow_files_sometimes()
        source, ca = self._loaded
        credential = source.get()
        if ca is None:
            return credential
        if self._given is None or self._given[0] is not credential:
            self._given = credential, credential._replace(ca=ca)
        return self._given[1]

    def reject(self, credential: Credential) -> bool:
        changed = self._follow_files()
        given = self._given
        if given is not None and given[1] is credential:
            credential = given[0]  # a source knows its own credentials by identity
        renewed = self._loaded[0].reject(credential)
        return changed or renewed

    def reread(self) -> bool:
        changed = self._follow_files()
        return self._loaded[0].reread() or changed

    def renewed_ca(self) -> bytes | None:
        self._follow_files_sometimes()
        return self._loaded[1]

    def _follow_files_sometimes(self) -> None:
        if self._clock() - self._checked_at >= REREAD_SECONDS:
            self._follow_files()

    def _follow_files(self) -> bool:
        """Load the endpoint again if a file changed; whether that gave other credentials."""
        self._checked_at = self._clock()
        versions = _versions(self._files)
        if versions == self._versions:
            return False
        try:
            endpoint = self._load()
        except ConfigError:
            return False  # it is being written: what was read before stays until it can be read
        same = endpoint.files == self._files  # the versions are those before the files were read
        self._files = endpoint.files
        self._versions = versions if same else _versions(endpoint.files)
        if endpoint.url != self._first.url:
            import logging  # a quick verb does not live long enough to get here

            logging.getLogger(__name__).warning(
                "%s: the kubeconfig names another server now; a restart would use it",
                self._first.url,
            )
            return False
        ca = None if endpoint.ca == self._first.ca else endpoint.ca
        self._given = None
        old, new = self._loaded[0], endpoint.credentials
        self._loaded = old if old == new else new, ca  # the same plugin need not run again
        return True


def _versions(files: tuple[Path, ...]) -> Versions:
    """What changes when a file, or the target of a symbolic link, is rewritten or replaced."""
    versions: list[tuple[int, ...] | None] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            versions.append(None)
        else:
            versions.append((status.st_mtime_ns, status.st_ino, status.st_dev, status.st_size))
    return tuple(versions)
