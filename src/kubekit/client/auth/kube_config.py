"""Kubeconfig files: merged as kubectl merges them, and read into an `Endpoint`.

The first file to name a cluster, user or context wins, and relative paths are relative to their own
file. Every problem raises a ConfigError that names the file and the key. Nothing here uses the
network.
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from kubekit.client.auth.credentials import Credential, StaticCredential, TokenFile
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.auth.reloading import reloading
from kubekit.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client.auth.credentials import CredentialSource
    from kubekit.client.auth.exec_plugin import ExecPluginConfig


def default_files() -> tuple[Path, ...]:
    """$KUBECONFIG's files, or ~/.kube/config."""
    files = filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep))
    return tuple(map(Path, files)) or (Path("~/.kube/config").expanduser(),)


def load(path: Path | None = None, context: str | None = None) -> Endpoint:
    """The endpoint of a context, by default the current one, in a file or the default files."""
    return load_files((path,) if path is not None else default_files(), context)


def load_files(files: tuple[Path, ...], context: str | None = None) -> Endpoint:
    """The endpoint of a context, by default the current one, in several files."""
    first = merge_files(files).endpoint(context)
    # By name: a change of the current context must not move this process to another cluster.
    return reloading(first, lambda: merge_files(files).endpoint(first.name))


class KubeConfigEntry(msgspec.Struct, frozen=True):
    """A mapping in a kubeconfig: its fields, its file, and its place in the file."""

    name: str
    fields: Mapping[str, Any]
    file: Path
    where: str

    def text(self, key: str) -> str:
        value = self.fields.get(key)
        if not isinstance(value, str | None):
            raise ConfigError(f"{self.where}.{key}: must be a string, is {value!r}")
        return value or ""

    def flag(self, key: str) -> bool:
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where}.{key}: must be true or false, is {value!r}")
        return value

    def path(self, key: str) -> Path | None:
        text = self.text(key)
        return self.file.parent / Path(text).expanduser() if text else None

    def data(self, key: str) -> bytes:
        """`KEY-data` decoded, or the content of the file that `KEY` names."""
        if inline := self.text(f"{key}-data"):
            try:
                return base64.b64decode(inline, validate=True)
            except binascii.Error as error:
                raise ConfigError(f"{self.where}.{key}-data: is not base64: {error}") from error
        path = self.path(key)
        return _read(path, f"{self.where}.{key}") if path else b""


class KubeConfig(msgspec.Struct, frozen=True):
    """Several kubeconfig files as one."""

    files: tuple[Path, ...]
    entries: Mapping[tuple[str, str], KubeConfigEntry]
    current: str

    @property
    def contexts(self) -> list[str]:
        return sorted(name for kind, name in self.entries if kind == "contexts")

    def endpoint(self, context: str | None = None) -> Endpoint:
        name = context or self.current
        if not name:
            raise ConfigError(
                f"{self._files}: current-context: is not set",
                hint=f"name one of: {', '.join(self.contexts)}" if self.contexts else "",
            )
        entry = self._context(name)
        cluster = self._named("clusters", entry, "cluster")
        server = cluster.text("server")
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"{cluster.where}.server: "
                + (f"{server!r} is not an http(s) address" if server else "is missing")
            )
        user = self._named("users", entry, "user") if entry.text("user") else None
        certificates = [cluster.path("certificate-authority")]
        if user is not None:
            certificates += [user.path("client-certificate"), user.path("client-key")]
        return Endpoint(
            server.rstrip("/"),
            _pem(cluster, "certificate-authority") or None,
            verify=not cluster.flag("insecure-skip-tls-verify"),
            credentials=_source(user, cluster) if user else StaticCredential(),
            namespace=entry.text("namespace") or "default",
            name=name,
            proxy=cluster.text("proxy-url"),
            server_name=cluster.text("tls-server-name"),
            compression=not cluster.flag("disable-compression"),
            files=(*self.files, *filter(None, certificates)),
        )

    @property
    def _files(self) -> str:
        return ", ".join(map(str, self.files))

    def _context(self, name: str) -> KubeConfigEntry:
        entry = self.entries.get(("contexts", name))
        if entry is not None:
            return entry
        known = self.contexts
        similar = nearest(name, known)
        raise ConfigError(
            f"{self._files}: there is no context {name!r} "
            + (f"(known: {', '.join(known)})" if known else "(the file has none)")
            + (f"; did you mean {similar!r}?" if similar else "")
        )

    def _named(self, kind: str, context: KubeConfigEntry, key: str) -> KubeConfigEntry:
        name = context.text(key)
        if not name:
            raise ConfigError(f"{context.where}.{key}: is missing")
        entry = self.entries.get((kind, name))
        if entry is None:
            raise ConfigError(f"{context.where}.{key}: there is no {key} {name!r}")
        return entry


def merge_files(files: tuple[Path, ...]) -> KubeConfig:
    """Merge files. A missing file among several is skipped, but at least one must exist."""
    present = [path for path in files if path.exists()] if len(files) > 1 else list(files)
    if not present:
        raise ConfigError(f"{', '.join(map(str, files))}: no such file")
    entries: dict[tuple[str, str], KubeConfigEntry] = {}
    current = ""
    for path in present:
        document = _parse(path)
        for kind, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in _entries(document, kind, inner, path):
                entries.setdefault((kind, entry.name), entry)
        named = document.get("current-context") or ""
        if not isinstance(named, str):
            raise ConfigError(f"{path}: current-context: must be a string, is {named!r}")
        current = current or named
    return KubeConfig(tuple(present), entries, current)


def _parse(path: Path) -> dict[str, Any]:
    content = _read(path, "")
    try:
        document = _decode(content)
    except ValueError as error:
        raise ConfigError(f"{path}: is not a kubeconfig: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: is not a kubeconfig: the top level must be a mapping")
    return document


def _decode(content: bytes) -> Any:
    if content.lstrip().startswith(b"{"):
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            pass  # YAML in flow style looks the same
    # After JSON was tried: loading yaml takes longer than reading the file.
    from kubekit.objects import yaml_reader

    return yaml_reader.load(content)


def _entries(document: dict[str, Any], kind: str, inner: str, path: Path) -> list[KubeConfigEntry]:
    rows = document.get(kind) or []
    if not isinstance(rows, list):
        raise ConfigError(f"{path}: {kind}: must be a list")
    entries = []
    for number, row in enumerate(rows):
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{path}: {kind}[{number}].name: is missing")
        fields = row.get(inner)
        if fields is not None and not isinstance(fields, dict):
            raise ConfigError(f"{path}: {kind}[{name}].{inner}: must be a mapping")
        entries.append(KubeConfigEntry(name, fields or {}, path, f"{path}: {kind}[{name}].{inner}"))
    return entries


def _source(user: KubeConfigEntry, cluster: KubeConfigEntry) -> CredentialSource:
    certificate = _pem(user, "client-certificate")
    key = _pem(user, "client-key")
    if bool(certificate) != bool(key):
        missing, other = ("key", "certificate") if certificate else ("certificate", "key")
        raise ConfigError(f"{user.where}.client-{missing}: is missing, the {other} is there")
    fixed = Credential("", certificate, key)
    if "exec" in user.fields:
        from kubekit.client.auth.exec_plugin import ExecPlugin  # slow to load, and rarely needed

        return ExecPlugin(_plugin(user, cluster))
    if "auth-provider" in user.fields:
        raise ConfigError(f"{user.where}.auth-provider: is no longer supported, use exec")
    # As in kubectl, a token file takes precedence over a token.
    token_file = user.path("tokenFile")
    if token_file is not None:
        return TokenFile(token_file, fixed)
    if token := user.text("token"):
        return StaticCredential(fixed._replace(authorization=f"Bearer {token}"))
    if name := user.text("username"):
        pair = base64.b64encode(f"{name}:{user.text('password')}".encode()).decode()
        return StaticCredential(fixed._replace(authorization=f"Basic {pair}"))
    return StaticCredential(fixed)


def _plugin(user: KubeConfigEntry, cluster: KubeConfigEntry) -> ExecPluginConfig:
    from kubekit.client.auth.exec_plugin import API_VERSIONS, ExecPluginConfig

    where = f"{user.where}.exec"
    fields = user.fields["exec"]
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: must be a mapping")
    entry = KubeConfigEntry("exec", fields, user.file, where)
    command, version = fields.get("command"), fields.get("apiVersion")
    if not isinstance(command, str) or not command:
        raise ConfigError(f"{where}.command: is missing")
    if version not in API_VERSIONS:
        known = ", ".join(API_VERSIONS)
        raise ConfigError(f"{where}.apiVersion: {version!r} is not one of {known}")
    args = fields.get("args") or []
    env = fields.get("env") or []
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        raise ConfigError(f"{where}.args: must be a list of strings")
    try:
        pairs = tuple((str(row["name"]), str(row["value"])) for row in env)
    except (TypeError, KeyError) as error:
        raise ConfigError(f"{where}.env: must be a list of name and value") from error
    return ExecPluginConfig(
        where,
        # A command with a slash is relative to the kubeconfig; a bare one is looked up in PATH.
        str(user.file.parent / command) if "/" in command else command,
        tuple(args),
        pairs,
        version,
        entry.text("interactiveMode") or "IfAvailable",
        entry.text("installHint"),
        _cluster_info(cluster) if entry.flag("provideClusterInfo") else None,
    )


def _cluster_info(cluster: KubeConfigEntry) -> dict[str, Any]:
    ca = cluster.data("certificate-authority")
    info = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "proxy-url": cluster.text("proxy-url"),
    }
    return {key: value for key, value in info.items() if value}


def _pem(entry: KubeConfigEntry, key: str) -> bytes:
    content = entry.data(key)
    if content and b"-----BEGIN" not in content:
        field = f"{key}-data" if entry.text(f"{key}-data") else key
        raise ConfigError(f"{entry.where}.{field}: is not PEM")
    return content


def _read(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        prefix = f"{where}: " if where else ""
        raise ConfigError(f"{prefix}{path}: {error.strerror or error}") from error
