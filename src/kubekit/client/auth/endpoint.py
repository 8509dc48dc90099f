"""An API server and the way to it: URL, certificate authority, credentials. Also from a pod."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubekit.client.auth.credentials import Credential, StaticCredential, TokenFile
from kubekit.client.auth.reloading import reloading
from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client.auth.credentials import CredentialSource

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Endpoint(msgspec.Struct, frozen=True):
    """One API server. `ca` of None means the system's certificate authorities."""

    url: str
    ca: bytes | None = None
    verify: bool = True
    credentials: CredentialSource = msgspec.field(default_factory=StaticCredential)
    namespace: str = "default"
    name: str = ""
    proxy: str = ""
    server_name: str = ""
    compression: bool = True
    """Whether the server may compress large responses, if it is not on this machine."""
    files: tuple[Path, ...] = ()
    """The files it was loaded from, except those that its credentials read themselves."""

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"  # the other fields hold secrets

    @classmethod
    def with_token(cls, url: str, token: str, *, ca: bytes | None = None) -> Endpoint:
        """An endpoint with a fixed token, as the local cluster's own components use it."""
        return cls(url, ca, credentials=StaticCredential(Credential(f"Bearer {token}")))


def in_cluster(
    environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Endpoint | None:
    """The endpoint that the kubelet gives this pod; None outside a pod."""
    url = _server_of_pod(environ)
    if not url or not (folder / "token").exists():
        return None
    return reloading(_service_account(url, folder), lambda: _service_account(url, folder))


def in_cluster_without_token(
    environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Endpoint | None:
    """The API server of this pod's cluster, without credentials; None outside a pod."""
    url = _server_of_pod(environ)
    if not url:
        return None

    def load() -> Endpoint:
        return msgspec.structs.replace(
            _service_account(url, folder), credentials=StaticCredential(), namespace="default"
        )

    return reloading(load(), load)


def _server_of_pod(environ: Mapping[str, str]) -> str:
    """The address that the kubelet gives this pod; empty outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return ""
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    # Without `ipaddress`, which every command would load for this.
    return host in ("localhost", "::1") or bool(re.fullmatch(r"127\.[0-9.]+", host))


def _service_account(url: str, folder: Path) -> Endpoint:
    file = folder / "ca.crt"
    try:
        ca = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    if b"-----BEGIN" not in ca:
        raise ConfigError(f"{file}: is not PEM")
    namespace = folder / "namespace"
    return Endpoint(
        url,
        ca,
        credentials=TokenFile(folder / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        name="in-cluster",
        files=(file,),
    )
