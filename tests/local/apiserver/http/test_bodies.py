"""Bodies that a client may send: anything, and the server answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.apiserver.running_server import JSON

if TYPE_CHECKING:
    from tests.local.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"{", JSON, 400),
        (b"\xff\xfe", JSON, 400),
        (b'"' + b"\xc3\x28" + b'"', JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b'{"a":' * 600 + b"1" + b"}" * 600, JSON, 400),
        (b'{"metadata":[]}', JSON, 400),
        (b'{"metadata":{"name":5}}', JSON, 400),
        (b"a: [", "application/yaml", 400),
        (b"\x00", "application/yaml", 400),
        (b"a: &a [1]\nb: *a", "application/yaml", 400),
        (b"- 1", "application/yaml", 400),
        (b"1: 2", "application/yaml", 400),
        (b"", JSON, 400),
        (b"hello", "text/plain", 415),
        (b'{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}', JSON, 413),
    ],
)
async def test_an_invalid_body_is_rejected_and_the_server_goes_on(
    api: ApiClient, body: bytes, content_type: str, expected: int
) -> None:
    reply = await api.send("POST", CM, body, content_type)

    assert reply.status == expected
    assert reply.body["kind"] == "Status"
    assert (await api.send("GET", CM)).status == 200


async def test_a_body_may_be_yaml(api: ApiClient) -> None:
    body = b"metadata: {name: a}\ndata: {day: 2026-01-01}\n"
    reply = await api.send("POST", CM, body, "application/yaml")

    assert reply.body["data"] == {"day": "2026-01-01"}


async def test_a_body_that_does_not_match_its_encoding_is_rejected(api: ApiClient) -> None:
    reply = await api.send("POST", CM, {"metadata": {"name": "a"}}, **{"Content-Encoding": "gzip"})

    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


async def test_unknown_fields_cause_a_warning(api: ApiClient) -> None:
    reply = await api.send("POST", CM, {"metadata": {"name": "a"}, "nonsense": 1})

    assert reply.headers.getall("Warning") == ['299 - "unknown field \\"nonsense\\""']
