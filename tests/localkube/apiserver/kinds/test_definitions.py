"""Custom kinds come and go with their definitions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from muster.contract import crds
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"


def tfjobs() -> Any:
    return next(c for c in crds.load_all() if c["metadata"]["name"] == "tfjobs.kubeflow.org")


def thing(plural: str, group: str = "example.com") -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    ]
    names = {"plural": plural, "kind": "Thing"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": versions}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


def conditions_of(crd: Any) -> dict[str, tuple[str, str]]:
    return {row["type"]: (row["status"], row["reason"]) for row in crd["status"]["conditions"]}


async def test_of_two_definitions_of_a_kind_the_first_is_served_until_it_is_deleted(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path) as api:
        for plural in ("things", "items"):
            await api.send("POST", CRDS, thing(plural))
        await api.send("POST", CRDS, thing("others", "example.org"))
    async with running_server(tmp_path) as api:
        path = f"{CRDS}/items.example.com"
        second = (await api.send("GET", path)).body
        assert conditions_of(second)["NamesAccepted"] == ("False", "ListKindConflict")
        assert conditions_of(second)["Established"] == ("False", "NotAccepted")
        assert second["status"]["acceptedNames"] == {"plural": "items", "kind": ""}
        assert (await api.send("GET", "/apis/example.com/v1/items")).status == 404
        assert (await api.send("GET", "/apis/example.com/v1/things")).status == 200
        assert (await api.send("GET", "/apis/example.org/v1/others")).status == 200

        await api.send("DELETE", f"{CRDS}/things.example.com")

        second = (await api.send("GET", path)).body
        assert conditions_of(second)["Established"] == ("True", "InitialNamesAccepted")
        assert (await api.send("GET", "/apis/example.com/v1/items")).status == 200


async def test_a_kind_is_served_as_soon_as_the_create_of_its_definition_is_answered(
    api: ApiClient,
) -> None:
    missing = await api.send("GET", JOBS)
    await api.send("POST", CRDS, tfjobs())
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}}
    created = await api.send("POST", JOBS, job)
    await api.send("DELETE", f"{CRDS}/tfjobs.kubeflow.org")
    gone = await api.send("GET", JOBS)

    assert (missing.status, created.status, gone.status) == (404, 201, 404)
    await api.send("POST", CRDS, tfjobs())
    assert (await api.send("GET", JOBS)).body["items"] == []


async def test_a_pattern_with_catastrophic_backtracking_takes_no_time(api: ApiClient) -> None:
    text = {"type": "string", "pattern": "^(a+)+$"}
    spec = {"type": "object", "properties": {"text": text}}
    await api.send(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "things.x.io"},
            "spec": {
                "group": "x.io",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}
                        },
                    }
                ],
            },
        },
    )
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}}

    async with asyncio.timeout(60):
        reply = await api.send(
            "POST",
            "/apis/x.io/v1/namespaces/default/things",
            {**thing, "spec": {"text": "a" * 10_000 + "!"}},
        )

    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == "spec.text"
