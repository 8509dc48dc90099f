"""AdmissionReview: the request to a webhook, and the meaning of its answer. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.errors import StatusError
from localkube.apiserver.webhooks.client import CallError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from localkube.apiserver.admission.attributes import Attributes

GROUP = "admission.k8s.io"
_KNOWN = ("v1", "v1beta1")


class Answer(NamedTuple):
    """What a webhook answered."""

    allowed: bool
    patch: list[Any]
    status: Raw
    warnings: list[str]


def review(versions: Iterable[str], request: Attributes, uid: str) -> Raw:
    """The review for a webhook that knows these versions of reviews."""
    version = next((v for v in versions if v in _KNOWN), _KNOWN[0])
    body = request.request(request.resource)
    body |= {"uid": uid, "object": request.obj, "oldObject": request.old}
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": body}


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


def read(sent: Raw, answer: Any, *, mutating: bool) -> Answer:
    """The answer, checked; CallError if it is none."""
    try:
        received = msgspec.convert(answer, _Review)
    except msgspec.ValidationError as error:
        raise CallError(f"failed to call webhook: {error}") from error
    response = received.response
    if response is None:
        raise _invalid("webhook response was absent")
    strict = sent["apiVersion"] == f"{GROUP}/v1"
    if strict:
        _check_v1(sent, received, response, mutating=mutating)
    patch = _patch(response.patch) if mutating else []
    if patch and strict and response.patch_type != "JSONPatch":
        raise CallError(f'unsupported patch type "{response.patch_type}"')
    return Answer(response.allowed, patch, response.status or {}, response.warnings or [])


def _check_v1(sent: Raw, received: _Review, response: _Response, *, mutating: bool) -> None:
    uid = sent["request"]["uid"]
    if response.uid != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.uid}"')
    group, _, version = received.api_version.rpartition("/")
    kind = f"{group}/{version}, Kind={received.kind}"
    expected = f"{GROUP}/v1, Kind=AdmissionReview"
    if kind != expected:
        raise _invalid(f"expected webhook response of {expected}, got {kind}")
    if not mutating:
        if response.patch:
            raise _invalid("validating webhook may not return response.patch")
        if response.patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
    elif response.patch and response.patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif not response.patch and response.patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif response.patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def _invalid(why: str) -> CallError:
    return CallError(f"received invalid webhook response: {why}")


def _patch(text: str | None) -> list[Any]:
    if not text:
        return []
    try:
        return msgspec.json.decode(base64.b64decode(text, validate=True), type=list[Any])
    except (binascii.Error, msgspec.MsgspecError) as error:
        why = f"received undecodable patch in webhook response: {error}"
        raise CallError(why) from error


# -- errors --------------------------------------------------------------------------------------


def refusal(name: str, status: Raw) -> StatusError:
    """The error for a request that a webhook refuses, with the status that it gave."""
    denied = f'admission webhook "{name}" denied the request'
    why = status.get("message") or status.get("reason")
    code = status.get("code") or 0
    return StatusError(
        f"{denied}: {why}" if why else f"{denied} without explanation",
        status=max(code, 400),
        reason=str(status.get("reason") or ""),
        details=status.get("details"),
    )


def internal_error(text: str) -> StatusError:
    """The error for a webhook that could not be called."""
    return StatusError(
        f"Internal error occurred: {text}",
        status=500,
        reason="InternalError",
        details={"causes": [{"message": text}]},
    )
