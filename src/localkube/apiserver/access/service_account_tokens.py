"""Tokens of service accounts: issued on request, signed with the cluster's own key, verified.

A token is a JSON web token signed with ES256. It is valid until it expires, for this server (its
audience), and as long as its account, and the pod or secret it is bound to, exist with the same
uid. PyJWT signs and verifies; time and audience are checked here, because the clock is injected and
a TokenReview may ask for several audiences.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import jwt
from cryptography.hazmat.primitives import serialization

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, codec
from localkube.apiserver.access.authentication import User, service_account
from localkube.apiserver.http import bodies
from localkube.apiserver.http.requests import Answer, Call, json_answer
from localkube.apiserver.kinds import field_rules
from localkube.apiserver.schema.decoding import check_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt.types import Options

    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.store import Store

ISSUER = "https://kubernetes.default.svc"
_API = "authentication.k8s.io/v1"
_ABOUT = "authentication.kubernetes.io"
_ALGORITHM = "ES256"
_CACHE_SIZE = 4096
_LEEWAY = 60
"""Seconds for which the clock may be behind the time a token was issued at, as with Kubernetes."""
# The kinds a token can be bound to; it becomes invalid when the object is deleted.
_BINDABLE = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets"}
# Of PyJWT: the claims that must exist. The others are checked in `user`, by the injected clock.
_CHECKS: Options = {
    "require": ["aud", "exp", "iss", "jti", "kubernetes.io", "nbf"],
    "verify_aud": False,
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}


class Tokens:
    """Issues and verifies tokens for the accounts of one store."""

    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        store: Store,
        clock: Callable[[], datetime],
        refused: Callable[[str], None] = lambda uid: None,
    ) -> None:
        self._key = key
        self._public_key = key.public_key()
        der = self._public_key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        # The ID of a key is its fingerprint.
        fingerprint = base64.urlsafe_b64encode(hashlib.sha256(der).digest())
        self._key_id = fingerprint.decode().rstrip("=")
        self._store = store
        self._clock = clock
        self._refused = refused
        """Called with the uid of a pod that shows a token before or after its time."""
        # Verifying a signature costs more than the rest of a small request. Only the signature is
        # cached: expiry and the bound objects are checked every time.
        self._verified: dict[str, Raw] = {}

    # -- issuing ---------------------------------------------------------------------------------

    async def request(self, call: Call) -> Answer:
        """Answer a TokenRequest."""
        if call.route.verb != "create":
            raise api_errors.method_not_allowed()
        request = check_shape(_API, "TokenRequest", bodies.read(call.body, call.content_type))
        spec = request.get("spec") or {}
        lifetime = spec.get("expirationSeconds") or field_rules.TOKEN_SECONDS
        causes = field_rules.check_token_lifetime(lifetime, "spec.expirationSeconds")
        api_errors.raise_if_invalid("authentication.k8s.io", "TokenRequest", "", causes)
        entry = self._store.get(call.key)
        if entry is None:
            raise api_errors.not_found("", "serviceaccounts", call.route.name)
        account = codec.decode(entry.value)["metadata"]
        audiences = spec.get("audiences") or [ISSUER]
        now = self._clock()
        issued = int(now.timestamp())
        bound = self._bound_object(spec.get("boundObjectRef"), account)
        metadata = {name: account[name] for name in ("name", "namespace", "uid")}
        answer = {
            "kind": "TokenRequest",
            "apiVersion": _API,
            "metadata": metadata | {"creationTimestamp": timestamp(now)},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": lifetime,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": self._issue(account, audiences, issued, lifetime, bound),
                "expirationTimestamp": timestamp(datetime.fromtimestamp(issued + lifetime, UTC)),
            },
        }
        return json_answer(answer, 201)

    def _bound_object(self, reference: Raw | None, account: Raw) -> Raw:
        if not reference:
            return {}
        version, kind, name = (reference.get(f, "") for f in ("apiVersion", "kind", "name"))
        plural = _BINDABLE.get((version, kind))
        if plural is None:
            raise api_errors.bad_request(
                f"cannot bind token to object of type /{version}, Kind={kind}"
            )
        entry = self._store.get(f"{plural}/{account['namespace']}/{name}")
        if entry is None:
            raise api_errors.not_found("", plural, name)
        bound = codec.decode(entry.value)
        uid = bound["metadata"]["uid"]
        if reference.get("uid") not in (None, "", uid):
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID"
                f" in record. The object might have been deleted and then recreated"
            )
            raise api_errors.conflict("", plural, name, why)
        if plural == "pods":
            runs_as = bound["spec"].get("serviceAccountName") or "default"
            if runs_as != account["name"]:
                raise api_errors.bad_request(
                    f'cannot bind token for serviceaccount "{account["name"]}" to pod running with'
                    f" different serviceaccount name."
                )
        return {kind.lower(): {"name": name, "uid": uid}}

    def _issue(
        self, account: Raw, audiences: list[str], now: int, lifetime: int, bound: Raw
    ) -> str:
        namespace, name = account["namespace"], account["name"]
        claims = {
            "aud": audiences,
            "exp": now + lifetime,
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
        # Kubernetes' tokens have no `typ`; PyJWT would add one.
        headers = {"kid": self._key_id, "typ": None}
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM, headers=headers)

    # -- verifying -------------------------------------------------------------------------------

    def audiences(self, token: str) -> list[str]:
        """The audiences of a token that this server signed; empty for any other text."""
        claims = self._claims(token)
        return list(claims["aud"]) if claims else []

    def user(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """The account of a valid token; None if it is invalid or for none of the audiences."""
        claims = self._claims(token)
        if claims is None or not set(audiences).intersection(claims["aud"]):
            return None
        about = claims["kubernetes.io"]
        if not claims["nbf"] - _LEEWAY <= self._clock().timestamp() < claims["exp"]:
            if "pod" in about:
                self._refused(about["pod"]["uid"])
            return None
        namespace, account = about["namespace"], about["serviceaccount"]
        if not self._exists(f"serviceaccounts/{namespace}/{account['name']}", account["uid"]):
            return None
        extra = {f"{_ABOUT}/credential-id": (f"JTI={claims['jti']}",)}
        for kind, plural in (("pod", "pods"), ("secret", "secrets")):
            bound = about.get(kind)
            if bound is None:
                continue
            if not self._exists(f"{plural}/{namespace}/{bound['name']}", bound["uid"]):
                return None
            if kind == "pod":  # reviews show them
                extra[f"{_ABOUT}/pod-name"] = (bound["name"],)
                extra[f"{_ABOUT}/pod-uid"] = (bound["uid"],)
        return service_account(namespace, account["name"], account["uid"], extra)

    def _exists(self, key: str, uid: str) -> bool:
        entry = self._store.get(key)
        return entry is not None and codec.decode(entry.value)["metadata"]["uid"] == uid

    def _claims(self, token: str) -> Raw | None:
        """The claims of a token that this server signed."""
        if token in self._verified:
            return self._verified[token]
        try:
            parts = jwt.decode_complete(
                token, self._public_key, [_ALGORITHM], _CHECKS, issuer=ISSUER
            )
        except (jwt.PyJWTError, UnicodeEncodeError):  # a header may hold bytes that are not UTF-8
            return None
        # Every token of this server names its key.
        if parts["header"].get("kid") != self._key_id:
            return None
        while len(self._verified) >= _CACHE_SIZE:  # the oldest goes first: dicts keep their order
            del self._verified[next(iter(self._verified))]
        claims: Raw = parts["payload"]
        self._verified[token] = claims
        return claims
