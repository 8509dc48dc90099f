"""Error responses become errors that name the verb, the resource and the cause."""

from __future__ import annotations

import json

import pytest

from kubekit.client import request
from kubekit.client.error_response import error_from_response, request_target
from kubekit.client.request import Request, Response
from kubekit.objects.kinds import LEASES, NAMESPACES, NODES, PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import (
    AlreadyExists,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unsupported,
    is_temporary,
)
from muster.contract.job_kinds import TFJOBS
from tests.api_in_memory import status_response

X = Key("ns", "x")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (request.get(PODS, X), "get pods x in namespace ns"),
        (request.list_page(PODS, "ns", limit=1, continue_token=""), "list pods in namespace ns"),
        (request.list_page(NODES, "", limit=1, continue_token=""), "list nodes"),
        (request.watch(TFJOBS, "", since="1"), "watch tfjobs.kubeflow.org"),
        (
            request.create(LEASES, {}, namespace="ns"),
            "create leases.coordination.k8s.io in namespace ns",
        ),
        (
            request.bind(X, uid="u", node="n", annotations={}),
            "create pods/binding x in namespace ns",
        ),
        (
            request.patch(TFJOBS, X, {}, subresource="status"),
            "patch tfjobs/status.kubeflow.org x in namespace ns",
        ),
        (request.delete(PODS, X), "delete pods x in namespace ns"),
        (request.delete_collection(PODS, "ns"), "deletecollection pods in namespace ns"),
        (request.get(NAMESPACES, Key("", "ns")), "get namespaces ns"),
        (
            request.patch(NAMESPACES, Key("", "ns"), {}, subresource="status"),
            "patch namespaces/status ns",
        ),
        (Request("GET", "/version"), "get /version"),
    ],
)
def test_a_request_has_a_readable_target(call: Request, words: str) -> None:
    assert str(request_target(call)) == words


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (415, "UnsupportedMediaType", Unsupported),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_each_status_is_its_own_error(code: int, reason: str, kind: type[Exception]) -> None:
    error = error_from_response(status_response(code, reason, "because"), request.get(PODS, X))
    assert type(error) is kind
    assert error.status == code


def test_unauthorized_and_forbidden_name_verb_and_resource() -> None:
    call = request.list_page(PODS, "ns", limit=1, continue_token="")
    unknown = error_from_response(status_response(401, "Unauthorized", "Unauthorized"), call)
    assert str(unknown).startswith(
        "not signed in: the cluster refused to list pods in namespace ns"
    )
    expired = error_from_response(status_response(401), call, expired="the certificate expired")
    assert str(expired).endswith("(401: the certificate expired)")
    refused = error_from_response(status_response(403, "Forbidden", "User x cannot"), call)
    assert str(refused) == "not allowed to list pods in namespace ns: User x cannot"


@pytest.mark.parametrize(
    "answer",
    [
        status_response(404, "NotFound", "the server could not find the requested resource"),
        Response(404, {}, b"404 page not found\n"),
    ],
)
def test_a_missing_kind_is_not_a_missing_object(answer: Response) -> None:
    error = error_from_response(answer, request.list_page(TFJOBS, "", limit=1, continue_token=""))
    assert isinstance(error, NotFound)
    assert str(error) == "the cluster has no tfjobs.kubeflow.org"
    absent = error_from_response(
        status_response(404, "NotFound", 'pods "x" not found'), request.get(PODS, X)
    )
    assert str(absent) == 'pods "x" not found'


@pytest.mark.parametrize("page", [b"<html>not here</html>", b"", b'{"error": "no route"}'])
def test_a_404_that_is_not_of_kubernetes_is_not_a_missing_object(page: bytes) -> None:
    error = error_from_response(Response(404, {}, page), request.get(PODS, X))
    assert isinstance(error, ServerError)
    assert "something between here and the API server answered 404" in str(error)
    assert is_temporary(error)


def test_the_invalid_fields_are_in_the_error() -> None:
    body = {
        "message": "invalid",
        "reason": "Invalid",
        "code": 422,
        "details": {"causes": [{"field": "spec.x", "message": "required", "reason": "R"}]},
    }
    error = error_from_response(Response(422, {}, json.dumps(body).encode()), request.get(PODS, X))
    assert error.causes == (Cause("spec.x", "required", "R"),)


@pytest.mark.parametrize("body", [b"<html>gateway</html>", b"", b"\xff\xfe", b"[1]"])
def test_a_response_without_a_status_still_gives_a_sentence(body: bytes) -> None:
    error = error_from_response(Response(502, {}, body), request.get(PODS, X))
    assert isinstance(error, ServerError)
    assert "<" not in str(error)
    assert str(error)


def test_the_time_to_wait_comes_from_the_header_or_the_details() -> None:
    call = request.get(PODS, X)
    assert (
        error_from_response(status_response(429, **{"Retry-After": "3"}), call).retry_after == 3.0
    )
    body = b'{"code":429,"details":{"retryAfterSeconds":7}}'
    assert error_from_response(Response(429, {}, body), call).retry_after == 7.0
    assert error_from_response(status_response(429), call).retry_after is None
