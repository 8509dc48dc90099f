"""A token is accepted only if this server signed it, with this key and algorithm."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from localkube.apiserver.access.service_account_tokens import ISSUER, Tokens
from localkube.apiserver.store.collection import Entry

if TYPE_CHECKING:
    from localkube.apiserver.store.store import Store

NOW = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
KEY = ec.derive_private_key(20260101, ec.SECP256R1())
KEY_ID = "vtkO_AlmyEa5Y111gCoQ8HiLVhH8rxdkLatc1JRmft8"
UID = "4d0f7e55-1f0a-4b93-9c65-7f8e9e3a0c11"
# Issued with KEY at 2026-01-01T00:00:00Z for one hour, before PyJWT signed tokens here.
OLD_TOKEN = (
    "eyJhbGciOiJFUzI1NiIsImtpZCI6InZ0a09fQWxteUVhNVkxMTFnQ29ROEhpTFZoSDhyeGRrTGF0YzFKUm1mdDgifQ"
    ".eyJhdWQiOlsiaHR0cHM6Ly9rdWJlcm5ldGVzLmRlZmF1bHQuc3ZjIl0sImV4cCI6MTc2NzIyOTIwMCwiaWF0Ijox"
    "NzY3MjI1NjAwLCJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMiLCJqdGkiOiIxZGY0NjM5NC0yOD"
    "AzLTRlNGQtOTJlZS0wYjVhMTYxMmUxYWEiLCJrdWJlcm5ldGVzLmlvIjp7Im5hbWVzcGFjZSI6ImRlZmF1bHQiLCJz"
    "ZXJ2aWNlYWNjb3VudCI6eyJuYW1lIjoiZGVmYXVsdCIsInVpZCI6IjRkMGY3ZTU1LTFmMGEtNGI5My05YzY1LTdmOG"
    "U5ZTNhMGMxMSJ9fSwibmJmIjoxNzY3MjI1NjAwLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6ZGVmYXVsdDpk"
    "ZWZhdWx0In0.Xy79qn-NaCqm7gnxeZ8XbBgvc_XbLTizqI6L2voThXSQtaXtsFV-nC_FM44XZw_fj1whdWslfMrRoh1"
    "FzDIIeA"
)
CLAIMS: dict[str, Any] = {
    "aud": [ISSUER],
    "exp": int(NOW.timestamp()) + 600,
    "iat": int(NOW.timestamp()),
    "iss": ISSUER,
    "jti": "1df46394-2803-4e4d-92ee-0b5a1612e1aa",
    "kubernetes.io": {
        "namespace": "default",
        "serviceaccount": {"name": "default", "uid": UID},
    },
    "nbf": int(NOW.timestamp()),
    "sub": "system:serviceaccount:default:default",
}


class OneAccount:
    """A store that holds only the service account `default`."""

    def get(self, key: str) -> Entry | None:
        account = b'{"metadata":{"uid":"%s"}}' % UID.encode()
        return Entry(key, 1, account) if key == "serviceaccounts/default/default" else None


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(KEY, cast("Store", OneAccount()), lambda: NOW)


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return ".".join(base64url(msgspec.json.encode(part)) for part in (header, claims))


def signed(claims: dict[str, Any], key: Any = KEY, **headers: Any) -> str:
    headers = {"kid": KEY_ID, "typ": None, **headers}
    return jwt.encode(claims, key, algorithm="ES256", headers=headers)


def without(claim: str) -> dict[str, Any]:
    return {name: value for name, value in CLAIMS.items() if name != claim}


def public_key() -> bytes:
    return KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def by_hmac(secret: bytes) -> str:
    """A token signed with the public key as the secret of a symmetric algorithm, a known attack."""
    text = unsigned({"alg": "HS256", "kid": KEY_ID}, CLAIMS)
    return f"{text}.{base64url(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def with_signature(token: str, signature: bytes) -> str:
    return f"{token.rpartition('.')[0]}.{base64url(signature)}"


def signature_of(token: str) -> bytes:
    return base64.urlsafe_b64decode(token.rpartition(".")[2] + "==")


def test_claims_signed_with_this_key_are_accepted(tokens: Tokens) -> None:
    user = tokens.user(signed(CLAIMS))

    assert user is not None
    assert user.name == "system:serviceaccount:default:default"


def test_a_token_from_before_the_signing_library_changed_is_still_accepted(tokens: Tokens) -> None:
    user = tokens.user(OLD_TOKEN)

    assert user is not None
    assert user.uid == UID


@pytest.mark.parametrize("name", ["none", "nOnE", "NONE", "", None])
def test_a_token_without_a_signature_is_rejected(tokens: Tokens, name: str | None) -> None:
    text = unsigned({"alg": name, "kid": KEY_ID}, CLAIMS)

    assert tokens.user(f"{text}.") is None
    assert tokens.user(text) is None
    assert tokens.user(with_signature(f"{text}.", signature_of(OLD_TOKEN))) is None


@pytest.mark.parametrize(
    "secret",
    [
        public_key(),
        public_key().strip(),
        KEY.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        KEY_ID.encode(),
        b"",
    ],
    ids=["pem", "pem-stripped", "der", "key-id", "empty"],
)
def test_a_symmetric_signature_is_rejected(tokens: Tokens, secret: bytes) -> None:
    assert tokens.user(by_hmac(secret)) is None


def test_a_signature_of_the_wrong_length_is_rejected(tokens: Tokens) -> None:
    token = signed(CLAIMS)
    signature = signature_of(token)

    for wrong in (
        signature[:-1],
        signature[1:],
        signature[:32],
        signature + b"\0",
        b"\0" + signature,
        b"\0" + signature[:32] + b"\0" + signature[32:],
        bytes(64),
    ):
        assert tokens.user(with_signature(token, wrong)) is None
    assert tokens.user(token) is not None


def test_characters_outside_the_base64_alphabet_are_rejected(tokens: Tokens) -> None:
    header, body, signature = signed(CLAIMS).split(".")

    for wrong in (
        f"{header}.{body}.{signature}!",
        f"{header}.{body}.{signature[:8]} {signature[8:]}",
        f"{header}.{body}\n.{signature}",
        f"{header}.{body}.{signature}\udce9",
        f"{header}.{body}.{signature}.",
        f".{header}.{body}.{signature}",
    ):
        assert tokens.user(wrong) is None, wrong


def test_a_changed_claim_is_rejected(tokens: Tokens) -> None:
    header, _, signature = signed(CLAIMS).split(".")
    changed = base64url(msgspec.json.encode(CLAIMS | {"exp": 2**40}))

    assert tokens.user(f"{header}.{changed}.{signature}") is None


@pytest.mark.parametrize("key_id", ["", "another", KEY_ID[:-1], None])
def test_a_foreign_key_id_is_rejected(tokens: Tokens, key_id: str | None) -> None:
    headers = {"kid": key_id} if key_id is not None else {}
    token = jwt.encode(CLAIMS, KEY, algorithm="ES256", headers=headers)

    assert tokens.user(token) is None


def test_another_key_under_this_key_id_is_rejected(tokens: Tokens) -> None:
    another = ec.generate_private_key(ec.SECP256R1())

    assert tokens.user(signed(CLAIMS, another)) is None


@pytest.mark.parametrize("issuer", ["https://example.org", "", ISSUER + "/", [ISSUER], 5])
def test_a_foreign_issuer_is_rejected(tokens: Tokens, issuer: object) -> None:
    token = jwt.api_jws.encode(
        msgspec.json.encode(CLAIMS | {"iss": issuer}), KEY, "ES256", {"kid": KEY_ID, "typ": None}
    )

    assert tokens.user(token) is None


@pytest.mark.parametrize("claim", ["aud", "exp", "iss", "jti", "kubernetes.io", "nbf"])
def test_a_token_that_lacks_a_claim_is_rejected(tokens: Tokens, claim: str) -> None:
    assert tokens.user(signed(without(claim))) is None


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b"\xff"])
def test_signed_text_that_is_not_a_set_of_claims_is_rejected(tokens: Tokens, body: bytes) -> None:
    token = jwt.api_jws.encode(body, KEY, "ES256", {"kid": KEY_ID, "typ": None})

    assert tokens.user(token) is None


def test_a_rejected_token_stays_rejected(tokens: Tokens) -> None:
    token = signed(CLAIMS | {"iss": "https://example.org"})

    assert [tokens.user(token) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize(
    ("seconds", "accepted"), [(-61, False), (-60, True), (599, True), (600, False)]
)
def test_validity_follows_the_given_clock(seconds: int, accepted: bool) -> None:
    def clock() -> datetime:
        return datetime.fromtimestamp(NOW.timestamp() + seconds, UTC)

    user = Tokens(KEY, cast("Store", OneAccount()), clock).user(signed(CLAIMS))

    assert (user is not None) is accepted


def test_an_audience_that_was_not_requested_is_rejected(tokens: Tokens) -> None:
    token = signed(CLAIMS | {"aud": ["vault", "db"]})

    assert tokens.user(token) is None
    assert tokens.user(token, ["elsewhere"]) is None
    assert tokens.user(token, ["elsewhere", "db"]) is not None
    assert tokens.audiences(token) == ["vault", "db"]
