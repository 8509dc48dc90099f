"""Both servers tell the same to the holders of tokens."""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.localkube.conformance.normalization import normalized
from tests.localkube.conformance.transcript import Case, Connection, Reply, Step

if TYPE_CHECKING:
    from tests.localkube.conformance.conftest import Running

pytestmark = pytest.mark.kube


class Holder(NamedTuple):
    """Somebody with another token than the admin's."""

    url: str
    authority_pem: bytes
    token: str


def ask(server: Running, step: Step, token: str = "") -> Reply:
    """One request, by the admin or by the holder of that token."""
    connection = Connection(Holder(server.url, server.authority_pem, token or server.token))
    with closing(connection):
        return connection.send(step)


def replies_to_tokens(server: Running, name: str) -> list[tuple[int, Any, Any, str]]:
    """The answers to a service account: with its token, a forged one, and one for other servers."""
    home = f"/api/v1/namespaces/{name}"
    tokens = f"{home}/serviceaccounts/a/token"
    ask(server, Step("POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
    ask(server, Step("POST", f"{home}/serviceaccounts", {"metadata": {"name": "a"}}))
    token = ask(server, Step("POST", tokens, {})).body["status"]["token"]
    elsewhere = {"spec": {"audiences": ["elsewhere"]}}
    other = ask(server, Step("POST", tokens, elsewhere)).body["status"]["token"]
    pods, who = f"{home}/pods", "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    replies = [
        ask(server, Step("GET", pods), token),
        ask(server, Step("POST", who, {}), token),
        Reply(ask(server, Step("GET", "/apis/batch/v1"), token).status, None),
        ask(server, Step("GET", pods), token[:-6] + "AAAAAA"),
        ask(server, Step("GET", pods), other),
    ]
    ask(server, Step("DELETE", home))
    return normalized(replies, Case("", []), name)


def test_a_token_grants_the_same_on_both_servers(ours: Running, real: Running) -> None:
    name = f"token-{secrets.token_hex(4)}"

    assert replies_to_tokens(ours, name) == replies_to_tokens(real, name)
