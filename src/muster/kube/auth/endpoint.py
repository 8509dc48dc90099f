"""An API server and the way to it: URL, certificate authority, credentials. Also from a pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from muster.errors import ConfigError
from muster.kube.auth.credentials import Credential, StaticCredential, TokenFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.kube.auth.credentials import CredentialSource

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

    @classmethod
    def with_token(cls, url: str, token: str, *, ca: bytes | None = None) -> Endpoint:
        """An endpoint with a fixed token, as the local cluster's own components use it."""
        return cls(url, ca, credentials=StaticCredential(Credential(f"Bearer {token}")))


def in_cluster(
    environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Endpoint | None:
    """The endpoint that the kubelet gives this pod; None outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").exists():
        return None
    try:
        ca = (folder / "ca.crt").read_bytes()
    except OSError as error:
        raise ConfigError(f"{folder / 'ca.crt'}: {error.strerror or error}") from error
    namespace = folder / "namespace"
    return Endpoint(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca,
        credentials=TokenFile(folder / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        name="in-cluster",
    )
