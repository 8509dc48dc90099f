"""A throw-away certificate authority, for servers and for clients.

Tests use it too, for a client that no server knows or a certificate that has expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Issues certificates; others must trust `certificate`."""

    def __init__(self, name: str = "muster-test-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, ())
        usage = _key_usage(sign=False, issue=True)
        builder = _unsigned(self._name, self._name, self._key.public_key(), DAY)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        signed = builder.add_extension(usage, critical=True).sign(self._key, SHA256())
        self.certificate = signed.public_bytes(Encoding.PEM)

    def server(self, *others: str) -> Pair:
        """A serving certificate for this machine's loopback names, and other names or addresses."""
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        names += [_general_name(other) for other in others]
        alternatives = x509.SubjectAlternativeName(names)
        return self._issue(
            _name("localhost", ()), ExtendedKeyUsageOID.SERVER_AUTH, alternatives, DAY
        )

    def client(self, user: str, *groups: str, lifetime: timedelta = DAY) -> Pair:
        """A client certificate; Kubernetes reads the user and its groups from the subject.

        A negative lifetime gives a certificate that ran out that long ago.
        """
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None, lifetime)

    def _issue(
        self,
        subject: x509.Name,
        purpose: ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        lifetime: timedelta,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _unsigned(subject, self._name, key.public_key(), lifetime)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        builder = builder.add_extension(_key_usage(sign=True, issue=False), critical=True)
        # Python 3.13 verifies strictly: a leaf without its issuer's key identifier is refused.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, SHA256())
        return Pair(signed.public_bytes(Encoding.PEM), _private_pem(key))


def signing_key() -> Pair:
    """A key pair for service-account tokens: `certificate` holds the bare public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Pair(public, _private_pem(key))


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    end = datetime.now(UTC) + lifetime
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # An hour of slack for clocks that step back while a test runs.
        .not_valid_before(min(datetime.now(UTC), end) - timedelta(hours=1))
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str, organizations: tuple[str, ...]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _key_usage(*, sign: bool, issue: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        key_cert_sign=issue,
        crl_sign=issue,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
