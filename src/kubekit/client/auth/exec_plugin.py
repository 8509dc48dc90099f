"""Credentials from an exec plugin: a program named in a kubeconfig that prints an ExecCredential.

The program runs only when its last credential has expired or was rejected, and it may ask questions
only at a terminal.

Kept apart because few kubeconfigs name a program, and every command would have to load it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.client.auth.credentials import Credential, CredentialSource
from kubekit.errors import ConfigError
from kubekit.objects.kinds import decoder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A credential is renewed this long before it expires: a request takes time to arrive, and the
# clocks of two machines differ.
SKEW_SECONDS = 10.0
API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecPluginConfig(NamedTuple):
    """A checked `exec` entry of a kubeconfig. `where` names its file and key, for messages."""

    where: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = API_VERSIONS[0]
    interactive: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None

    def error(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.where}: {self.command!r} {problem}")


class ExecPlugin(CredentialSource):
    """A program that prints an ExecCredential, which is used until it expires."""

    def __init__(self, plugin: ExecPluginConfig, now: Callable[[], float] = time.time) -> None:
        self.plugin, self._now = plugin, now
        self._lock = threading.Lock()
        self._credential: Credential | None = None
        self._expires = float("inf")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecPlugin) and self.plugin == other.plugin

    def __hash__(self) -> int:
        return hash((self.plugin.where, self.plugin.command))

    def is_ready(self) -> bool:
        return self._credential is not None and self._now() < self._expires - SKEW_SECONDS

    def get(self) -> Credential:
        # The lock makes requests that start together share one run of the program.
        with self._lock:
            if self._credential is None or not self.is_ready():
                self._credential = self._run()
            return self._credential

    def reject(self, credential: Credential) -> bool:
        if self._credential is credential:  # else it was renewed since the request was sent
            self._credential = None
        return True

    def _run(self) -> Credential:
        plugin = self.plugin
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactive == "Always" and not terminal:
            raise plugin.error("needs to ask questions, and this is not a terminal")
        interactive = terminal and plugin.interactive != "Never"
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.cluster is not None:
            spec["cluster"] = dict(plugin.cluster)
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        described = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        import subprocess

        try:
            process = subprocess.run(
                [plugin.command, *plugin.args],
                env={**os.environ, **dict(plugin.env), **described},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            raise ConfigError(
                f"{plugin.where}: cannot run {plugin.command!r}: {error.strerror or error}",
                hint=plugin.install_hint.strip(),
            ) from error
        if process.returncode != 0:
            lines = (process.stderr or b"").decode("utf-8", "replace").strip().splitlines()
            last_line = f": {lines[-1]}" if lines else ""
            raise plugin.error(f"failed with exit code {process.returncode}{last_line}")
        return self._parse(process.stdout)

    def _parse(self, output: bytes) -> Credential:
        plugin = self.plugin
        try:
            credential = decoder_of(_ExecCredential).decode(output)
        except msgspec.DecodeError as error:
            raise plugin.error(f"did not print an ExecCredential: {error}") from error
        if credential.api_version != plugin.api_version:
            words = f"printed {credential.api_version!r}, expected {plugin.api_version!r}"
            raise plugin.error(words)
        status = credential.status or _Status()
        if not status.token and not (status.client_certificate_data and status.client_key_data):
            raise plugin.error("gave neither token nor certificate")
        expires = status.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=UTC)
        self._expires = float("inf") if expires is None else expires.timestamp()
        return Credential(
            f"Bearer {status.token}" if status.token else "",
            status.client_certificate_data.encode(),
            status.client_key_data.encode(),
        )
