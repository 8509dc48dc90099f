"""Bodies that a client may send: anything, and the server answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localkube.apiserver.http import bodies
from tests.kubekit.objects.yaml_attacks import read_apart
from tests.localkube.apiserver.running_server import JSON

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"
YAML, APPLY = "application/yaml", "application/apply-patch+yaml"
SERVE_ATTACK = """
import asyncio, pathlib, sys, tempfile
from tests.localkube.apiserver.running_server import running_server

CM = "/api/v1/namespaces/default/configmaps"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

async def main(text):
    with tempfile.TemporaryDirectory() as folder:
        async with running_server(pathlib.Path(folder)) as api:
            for method, path, kind in (
                ("POST", REVIEW, "application/yaml"),
                ("POST", CM, "application/yaml"),
                ("PUT", CM + "/a", "application/yaml"),
                ("PATCH", CM + "/a?fieldManager=me", "application/apply-patch+yaml"),
                ("DELETE", CM + "/a", "application/yaml"),
            ):
                print((await api.send(method, path, text, kind)).status)
            print((await api.send("GET", CM)).status)

asyncio.run(main(sys.stdin.buffer.read()))
"""


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
        (b"1: 2", "application/yaml", 422),  # the same as {"1": 2}: it has no name
        (b"? [a]", "application/yaml", 400),
        (b"!!map a", "application/yaml", 400),
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


@pytest.mark.parametrize("text", [b"[" * 50_000, b"spec:\n  " + b"- " * 50_000, b'{"a":' * 50_000])
def test_deeply_nested_yaml_does_not_end_the_server(text: bytes) -> None:
    assert read_apart(text, SERVE_ATTACK).split() == ["400"] * 5 + ["200"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"[" + b"a," * 1_400_000, "it is larger than 1024 kB"),
        (b"metadata: {name: a}\nx:\n" + b"- a\n" * 20_000, "it has more than 20,000 values"),
    ],
)
async def test_large_yaml_would_take_too_long_and_json_is_asked_for(
    api: ApiClient, text: bytes, says: str
) -> None:
    reply = await api.send("POST", CM, text, YAML)

    assert (reply.status, reply.body["reason"]) == (413, "RequestEntityTooLarge")
    assert says in reply.body["message"]
    assert reply.body["message"].endswith("; send it as JSON")


@pytest.mark.parametrize("kind", [YAML, APPLY])
async def test_json_may_be_large_whatever_type_is_declared(api: ApiClient, kind: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    body["data"] = {f"k{i}": "" for i in range(30_000)}
    method, path = ("POST", CM) if kind == YAML else ("PATCH", f"{CM}/a?fieldManager=me")
    reply = await api.send(method, path, body, kind)

    assert reply.status == 201, reply.body


async def test_a_field_twice_in_json_too_large_for_yaml_is_still_reported(api: ApiClient) -> None:
    rest = b",".join(b'"k%d": ""' % i for i in range(30_000))
    body = (
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "", '
    )
    reply = await api.send(
        "PATCH", f"{CM}/a?fieldManager=me", body + b'"a": "", ' + rest + b"}}", APPLY
    )

    assert reply.status == 201, reply.body
    assert reply.headers.getall("Warning") == ['299 - "duplicate field \\"data.a\\""']


async def test_a_large_answer_in_yaml_is_json_which_is_yaml_too(api: ApiClient) -> None:
    """Writing blocks takes a hundred times as long, and all others would wait."""
    labels = {f"k{n}": "v" for n in range(50_000)}
    review = {"metadata": {"labels": labels}, "spec": {"namespace": "default"}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

    reply = await api.send("POST", path, review, Accept="application/yaml")

    assert reply.status == 201
    assert reply.headers["Content-Type"].startswith("application/yaml")
    assert reply.body["metadata"]["labels"] == labels


def test_an_answer_in_yaml_may_be_nested_deeply() -> None:
    nested = b"[" * 500 + b"]" * 500

    assert bodies.as_yaml(nested) == nested
    assert bodies.as_yaml(b'{"a":[1]}') == b"a:\n- 1\n"
