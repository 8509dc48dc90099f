"""Rules of definitions on the local API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localkube.apiserver.cel import rule_checks
from muster.contract import crds
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    async with running_server(tmp_path) as client:
        yield client


def definition(spec: Any) -> Any:
    schema = {"type": "object", "properties": {"spec": spec}}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    ]
    names = {"plural": "things", "kind": "Thing"}
    body = {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions}
    return {"metadata": {"name": "things.example.com"}, "spec": body}


def ruled(properties: Any, *rules: str) -> Any:
    rows = [{"rule": rule} for rule in rules]
    return definition(
        {"type": "object", "properties": properties, "x-kubernetes-validations": rows}
    )


def thing(name: str = "t", **spec: Any) -> Any:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        # More iterations than the library allows.
        ("self.list.all(x, self.list.all(y, true))", {"list": list(range(200))}),
        # A text of 1 TiB.
        (f"['x']{'.map(a, a + a + a + a)' * 20}[0].size() > 0", {}),
    ],
)
async def test_a_rule_that_takes_too_much_is_ended_and_the_server_goes_on(
    api: ApiClient, rule: str, spec: Any
) -> None:
    crd = ruled({"list": {"type": "array", "items": {"type": "integer"}}}, rule)
    assert (await api.send("POST", CRDS, crd)).status == 201

    reply = await api.send("POST", THINGS, thing(**spec))

    assert reply.status == 422
    assert "actual cost limit exceeded" in reply.body["message"]
    await api.send("DELETE", f"{CRDS}/things.example.com")
    crd = ruled({"list": {"type": "array", "items": {"type": "integer"}}}, "self.list.all(x, true)")
    assert (await api.send("POST", CRDS, crd)).status == 201
    assert (await api.send("POST", THINGS, thing(list=[1]))).status == 201


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("string(ip('1.2.3.4')) == ''", "no matching overload for 'string'"),
        ("1" + " + 1" * 40 + " == 41", "recursion depth of 32"),
        (
            "{'a': 1}.transformMap(k, v, v" + " + 1" * 28 + ").size() == 1",
            "recursion depth of 32",
        ),
    ],
)
async def test_a_rule_that_cannot_be_evaluated_is_rejected_with_its_definition(
    api: ApiClient, rule: str, words: str
) -> None:
    reply = await api.send("POST", CRDS, ruled({"a": {"type": "integer"}}, rule))

    assert reply.status == 422
    (cause,) = reply.body["details"]["causes"]
    assert cause["field"].endswith("properties[spec].x-kubernetes-validations[0].rule")
    assert words in cause["message"]


def test_the_rules_of_our_own_definitions_compile() -> None:
    for crd in crds.load_all():
        for version in crd["spec"]["versions"]:
            assert rule_checks.check(version["schema"]["openAPIV3Schema"], "schema") == []
