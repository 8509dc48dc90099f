"""The server's secrets on disk: certificates, the admin's token, the key that signs tokens.

All are files of mode 0600 under the data folder, created once; files that others may open are not
read. The certificate of the server is renewed when the server gets other names or the certificate
expires soon.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubekit.errors import ConfigError
from kubekit.private_files import read_private
from localkube.apiserver.codec import dump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NAMES = (
    "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)  # fmt: skip
_VALIDITY = timedelta(days=3650)
_MARGIN = timedelta(days=30)
"""A certificate is renewed this long before it expires. Only a server that starts checks it."""


@dataclass(frozen=True)
class ServerCredentials:
    """The folder of secrets, the admin's token and the CA certificate."""

    folder: Path
    token: str
    ca: bytes

    def context(self) -> ssl.SSLContext:
        """The TLS context of the listening sockets."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # as with kube-apiserver
        read_private(self.folder / "server.key")  # it must be ours
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        return context

    def signing_key(self) -> ec.EllipticCurvePrivateKey:
        """The key that signs service accounts' tokens; stored, so that they survive a restart."""
        path = self.folder / "accounts.key"
        if not path.exists():
            _write(path, _pem(ec.generate_private_key(ec.SECP256R1())))
        key = serialization.load_pem_private_key(read_private(path), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{path} does not hold an elliptic curve key")
        return key

    def write_kubeconfig(self, path: Path, url: str, name: str = "muster") -> None:
        """Write a kubeconfig for the admin in one step: readers see the old file or the new one."""
        cluster = {
            "server": url,
            "certificate-authority-data": base64.b64encode(self.ca).decode(),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}
            ],
            "current-context": name,
        }
        _write(path, dump(config))


def load_or_create(folder: Path, addresses: Sequence[str]) -> ServerCredentials:
    """Read or create the CA, the server's certificate for these addresses, and the token."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = folder / "token"
    if not token.exists():
        _write(token, secrets.token_urlsafe(32).encode())
    ca, ca_key = _authority(folder)
    _server(folder, ca, ca_key, addresses)
    return ServerCredentials(
        folder, read_private(token).decode().strip(), ca.public_bytes(serialization.Encoding.PEM)
    )


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step; no other user can ever read it."""
    # The mode is set when the file is created: with chmod afterwards, others could open it before.
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    draft.rename(path)


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    crt, key_file = folder / "ca.crt", folder / "ca.key"
    if crt.exists() and key_file.exists():
        ca = x509.load_pem_x509_certificate(read_private(crt))
        ca_key = serialization.load_pem_private_key(read_private(key_file), None)
        if isinstance(ca_key, ec.EllipticCurvePrivateKey) and not _expiring(ca):
            return ca, ca_key
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip
    ca = (
        _blank(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(key_file, _pem(key))
    _write(crt, ca.public_bytes(serialization.Encoding.PEM))
    return ca, key


def _server(
    folder: Path, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, addresses: Sequence[str]
) -> None:
    crt = folder / "server.crt"
    names = _alternatives(addresses)
    if crt.exists() and _fits(x509.load_pem_x509_certificate(read_private(crt)), ca, names):
        return
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        _blank(name, ca.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )
    _write(folder / "server.key", _pem(key))
    _write(crt, certificate.public_bytes(serialization.Encoding.PEM))


def _blank(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # the clock of a client may be behind
        .not_valid_after(now + _VALIDITY)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _alternatives(addresses: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    for address in dict.fromkeys(("127.0.0.1", "::1", *addresses)):
        try:  # clients compare an IP address and a name with different entries
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            if address not in _NAMES:
                names.append(x509.DNSName(address))
    return names


def _expiring(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc < datetime.now(UTC) + _MARGIN


def _fits(
    certificate: x509.Certificate, ca: x509.Certificate, names: Sequence[x509.GeneralName]
) -> bool:
    """Whether a certificate still covers every name and was issued by this CA."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        return False
    covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return not _expiring(certificate) and set(names) <= set(covered)
