"""Tokens of service accounts: made on request, signed with a key of this cluster's own, checked.

`serve.py` routes `serviceaccounts/NAME/token` here and asks `user` about every bearer token that is
not the admin's. A token is good while it has not expired, its account (and the pod or secret it was
bound to) is still the one of that uid, and it was made for this server.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from muster.api.meta import timestamp
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.access.authentication import User, service_account
from muster.local.apiserver.http import bodies
from muster.local.apiserver.http.requests import Answer, Call, json_answer
from muster.local.apiserver.schema.decoding import check_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.store.store import Store

ISSUER = "https://kubernetes.default.svc"
_API = "authentication.k8s.io/v1"
_ABOUT = "authentication.kubernetes.io"
_SHORTEST, _LONGEST = 600, 2**32
_USUAL = 3600
_SIDE = 32  # bytes of each number of a P-256 signature
_SIGNED = ec.ECDSA(hashes.SHA256())
_REMEMBERED = 4096
# What a token can be bound to: its life ends with theirs.
_BOUND = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets"}


class Tokens:
    """Makes and checks tokens for the accounts of one store."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, store: Store, clock: Callable[[], datetime]
    ) -> None:
        self._key = key
        self._public = key.public_key()
        self._store = store
        self._clock = clock
        # Signatures that were found good: checking one costs more than the rest of a small request.
        self._good: dict[str, Raw] = {}
        self._head = _packed({"alg": "ES256", "kid": _fingerprint(self._public)})

    # -- making ----------------------------------------------------------------------------------

    async def request(self, call: Call) -> Answer:
        """Answer a TokenRequest."""
        if call.route.verb != "create":
            raise api_errors.method_not_allowed()
        asked = check_shape(_API, "TokenRequest", bodies.read(call.body, call.content_type))
        spec = asked.get("spec") or {}
        lifetime = spec.get("expirationSeconds") or _USUAL
        _check_lifetime(lifetime)
        entry = self._store.get(call.key)
        if entry is None:
            raise api_errors.not_found("", "serviceaccounts", call.route.name)
        account = objects.decode(entry.value)["metadata"]
        audiences = spec.get("audiences") or [ISSUER]
        now = self._clock()
        bound = self._bound(spec.get("boundObjectRef"), account)
        token, expires = self._issue(account, audiences, int(now.timestamp()), lifetime, bound)
        shown = {
            "kind": "TokenRequest",
            "apiVersion": _API,
            "metadata": {
                "name": account["name"],
                "namespace": account["namespace"],
                "uid": account["uid"],
                "creationTimestamp": timestamp(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": lifetime,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": token,
                "expirationTimestamp": timestamp(datetime.fromtimestamp(expires, UTC)),
            },
        }
        return json_answer(shown, 201)

    def _bound(self, reference: Raw | None, account: Raw) -> Raw:
        if not reference:
            return {}
        version, kind, name = (reference.get(f, "") for f in ("apiVersion", "kind", "name"))
        plural = _BOUND.get((version, kind))
        if plural is None:
            raise api_errors.bad_request(
                f"cannot bind token to object of type /{version}, Kind={kind}"
            )
        entry = self._store.get(f"{plural}/{account['namespace']}/{name}")
        if entry is None:
            raise api_errors.not_found("", plural, name)
        found = objects.decode(entry.value)
        uid = found["metadata"]["uid"]
        if reference.get("uid") not in (None, "", uid):
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID"
                f" in record. The object might have been deleted and then recreated"
            )
            raise api_errors.conflict("", plural, name, why)
        if plural == "pods":
            runs_as = found["spec"].get("serviceAccountName") or "default"
            if runs_as != account["name"]:
                raise api_errors.bad_request(
                    f'cannot bind token for serviceaccount "{account["name"]}" to pod running with'
                    f" different serviceaccount name."
                )
        return {kind.lower(): {"name": name, "uid": uid}}

    def _issue(
        self, account: Raw, audiences: list[str], now: int, lifetime: int, bound: Raw
    ) -> tuple[str, int]:
        namespace, name = account["namespace"], account["name"]
        expires = now + lifetime
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": account["uid"]},
                **bound,
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        signed = f"{self._head}.{_packed(claims)}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _SIGNED))
        signature = r.to_bytes(_SIDE, "big") + s.to_bytes(_SIDE, "big")
        return f"{signed}.{_text(signature)}", expires

    # -- checking --------------------------------------------------------------------------------

    def audiences(self, token: str) -> list[str]:
        """Whom a token of ours is meant for."""
        claims = self._claims(token)
        return list(claims["aud"]) if claims else []

    def user(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """Whose token this is; None if it is nobody's, or is not meant for any of these."""
        claims = self._claims(token)
        if claims is None or not set(audiences).intersection(claims["aud"]):
            return None
        if not claims["nbf"] <= self._clock().timestamp() < claims["exp"]:
            return None
        about = claims["kubernetes.io"]
        namespace, account = about["namespace"], about["serviceaccount"]
        if not self._is(f"serviceaccounts/{namespace}/{account['name']}", account["uid"]):
            return None
        extra = {f"{_ABOUT}/credential-id": (f"JTI={claims['jti']}",)}
        for kind, plural in (("pod", "pods"), ("secret", "secrets")):
            bound = about.get(kind)
            if bound is None:
                continue
            if not self._is(f"{plural}/{namespace}/{bound['name']}", bound["uid"]):
                return None
            if kind == "pod":
                extra[f"{_ABOUT}/pod-name"] = (bound["name"],)
                extra[f"{_ABOUT}/pod-uid"] = (bound["uid"],)
        return service_account(namespace, account["name"], account["uid"], extra)

    def _is(self, key: str, uid: str) -> bool:
        entry = self._store.get(key)
        return entry is not None and objects.decode(entry.value)["metadata"]["uid"] == uid

    def _claims(self, token: str) -> Raw | None:
        """What a token says, if we said it."""
        if token in self._good:
            return self._good[token]
        try:
            signed, _, signature = token.rpartition(".")
            head, _, body = signed.partition(".")
            if head != self._head:
                return None
            both = _bytes(signature)
            r, s = int.from_bytes(both[:_SIDE], "big"), int.from_bytes(both[_SIDE:], "big")
            self._public.verify(encode_dss_signature(r, s), signed.encode(), _SIGNED)
            claims = objects.decode(_bytes(body))
        except (InvalidSignature, ValueError, binascii.Error, msgspec.DecodeError):
            return None
        while len(self._good) >= _REMEMBERED:
            del self._good[next(iter(self._good))]
        self._good[token] = claims
        return claims


def _check_lifetime(seconds: int) -> None:
    why = ""
    if seconds < _SHORTEST:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        cause = api_errors.invalid_value("spec.expirationSeconds", seconds, why)
        raise api_errors.invalid("authentication.k8s.io", "TokenRequest", "", [cause])


def _fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(
        key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return _text(digest.finalize())


def _packed(value: Any) -> str:
    return _text(objects.dump(value))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
