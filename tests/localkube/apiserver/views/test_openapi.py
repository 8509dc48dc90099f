"""OpenAPI: descriptions of built-in kinds, the old format in both encodings, hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit import schemas
from localkube.apiserver.http.protobuf import _fields
from localkube.apiserver.views import openapi_v2

if TYPE_CHECKING:
    import pytest

    from tests.localkube.apiserver.running_server import ApiClient

POD = "io.k8s.api.core.v1.Pod"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_built_in_kinds_have_descriptions(api: ApiClient) -> None:
    types = (await api.send("GET", "/openapi/v3/api/v1")).body["components"]["schemas"]

    assert types[POD]["description"].startswith("Pod is a collection of containers")
    assert types[POD]["properties"]["spec"]["description"].startswith(
        "Specification of the desired"
    )


async def test_the_server_works_without_reading_descriptions(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "descriptions", None)

    await api.create_pod("a")


async def test_the_old_format_in_protobuf_names_the_types_of_the_json(api: ApiClient) -> None:
    document = (await api.send("GET", "/openapi/v2")).body
    encoded = await api.session.get(
        f"{api.server.url}/openapi/v2", headers={"Accept": openapi_v2.MEDIA_TYPE}
    )
    data = await encoded.read()

    assert encoded.headers["Content-Type"] == openapi_v2.SENT
    parts = dict(_fields(data))
    names = [dict(_fields(row))[1].decode() for _, row in _fields(parts[9])]
    paths = [dict(_fields(row))[1].decode() for _, row in _fields(parts[8])]
    assert names == list(document["definitions"])
    assert paths == list(document["paths"])
    assert POD in names


async def test_a_document_keeps_its_hash_until_a_definition_changes(api: ApiClient) -> None:
    async def links() -> dict[str, str]:
        paths = (await api.send("GET", "/openapi/v3")).body["paths"]
        return {root: row["serverRelativeURL"] for root, row in paths.items()}

    schema = {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "x.io", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}}
    crd = {"metadata": {"name": "as.x.io"}, "spec": {**spec, "versions": [version]}}
    created = await api.send("POST", CRDS, crd)
    before = await links()
    version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    created.body["spec"]["versions"] = [version]
    assert (await api.send("PUT", f"{CRDS}/as.x.io", created.body)).status == 200
    after = await links()

    kept = await api.send("GET", before["api/v1"])
    assert "immutable" in kept.headers["Cache-Control"]
    assert before["apis/x.io/v1"] != after["apis/x.io/v1"]
    assert before["api/v1"] == after["api/v1"]
