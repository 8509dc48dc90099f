"""Both servers call webhooks alike, for admission and conversion, and answer alike."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.conformance.cases import conversion_webhooks, webhook_calls
from tests.localkube.conformance.normalization import normalized
from tests.localkube.conformance.transcript import Case, Connection, Reply, Step, play
from tests.side_by_side import side_by_side
from tests.webhook_server import WebhookServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.localkube.conformance.conftest import Running

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path_factory.mktemp("webhooks"))
    server.start()
    yield server
    server.stop()


def pointed(step: Step, hooks: WebhookServer, caller: str) -> Step:
    """A step whose webhooks are those of the server, under the caller's name."""
    text = json.dumps(step.body)
    text = text.replace("$hooks", f"{hooks.url}/{caller}").replace("$ca", hooks.ca_bundle)
    return replace(step, body=json.loads(text))


CASES = [*webhook_calls.CASES, *conversion_webhooks.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_servers_call_webhooks_alike(
    case: Case, ours: Running, real: Running, hooks: WebhookServer
) -> None:
    name = f"case-{secrets.token_hex(4)}"

    def played(server: Running) -> Any:
        caller = "ours" if server is ours else "real"
        steps = [pointed(step, hooks, caller) for step in case.steps]
        try:
            replies = play(server, Case(case.name, steps), name)
        finally:
            remove_configurations(server, name)
        mark = f"/{caller}/"
        reviews = [
            Reply(200, review)
            for path, review in hooks.reviews
            if path.startswith(f"{mark}recorded") and name in json.dumps(review)
        ]
        texts = json.dumps([reply.__dict__ for reply in [*replies, *reviews[:6]]])
        plain = texts.replace(hooks.ca_bundle, "<ca>").replace(mark, "/<caller>/")
        return normalized([Reply(**row) for row in json.loads(plain)], case, name)

    expected, actual = side_by_side(played, real, ours)

    for i, (want, got) in enumerate(zip(expected, actual, strict=True)):
        step = case.steps[i] if i < len(case.steps) else "the review that a webhook got"
        assert got == want, step


def remove_configurations(server: Running, name: str) -> None:
    connection = Connection(server)
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
        connection.send(Step("DELETE", path))
    connection.close()
