"""`/models` on a local API server: live, escaped, and without rights of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec
import pytest
from aiohttp import ClientPayloadError
from msgspec.structs import replace

from kubekit.errors import MusterError
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key
from muster.client.models import model_runs
from muster.contract.exported_models import (
    DATA_KEY,
    MODEL_DIR,
    File,
    Maker,
    Model,
    Tensor,
    Version,
    encode,
    manifest,
)
from muster.contract.job_kinds import TFJOBS
from muster.web.access.gate import Policy
from muster.web.cluster.live_cluster import LiveCluster
from muster.web.context import attachment
from tests.muster.web.objects import HOSTILE, job
from tests.muster.web.site import Site, rows

NAME = "model-tfjob-mnist"


def make(*versions: str, text: str = "weights") -> Model:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = tuple(
        Version(
            name, name, "npz", moment, 908, (File(text, 908),), 1, (Tensor(text, text, (20, 4)),)
        )
        for name in versions
    )
    return Model("mnist", Maker("kubeflow.org/v1", "TFJob", "mnist", "u"), f"/models/{text}", rows)


def publish(site: Site, model: Model) -> None:
    site.api.create(CONFIG_MAPS, manifest(model, site.namespace, NAME))


def address(site: Site) -> str:
    return f"/models/{site.namespace}/{NAME}"


async def test_models_are_listed_and_a_new_version_replaces_the_older_one(site: Site) -> None:
    publish(site, make("1"))
    await site.page_with("/models", site.namespace)

    body = {"data": {DATA_KEY: encode(make("2", "1"))}}
    site.api.patch(CONFIG_MAPS, Key(site.namespace, NAME), body)
    page = await site.page_with(address(site), "version 2")
    assert [row[0] for row in rows(page)] == ["2", "1"]
    listed = [row for row in rows(await site.get("/models")) if row[6] == site.namespace]
    assert [row[:5] for row in listed] == [["mnist", "2", "npz", "908 B", "2"]]


async def test_versions_that_are_not_listed_are_named(site: Site) -> None:
    cut = tuple(replace(row, truncated=True) for row in make("1").versions)
    publish(site, replace(make(), versions=cut, omitted=2, truncated=True))

    page = await site.page_with(address(site), "version 1")

    sentence = "/models/weights has more than 10,000 entries, and versions beyond these"
    assert f"3 versions, newest first; 2 older versions are not listed; {sentence}" in page
    assert rows(page)[0][3] == "> 908 B"
    assert "more than 1 file" in page


async def test_text_of_files_is_escaped(site: Site) -> None:
    model = msgspec.structs.replace(make("1", text=HOSTILE), name=HOSTILE)
    body = manifest(model, site.namespace, NAME)
    body["metadata"]["labels"] = {"muster.dev/model": "x"}
    site.api.create(CONFIG_MAPS, body)

    for path in ("/models", address(site)):
        page = await site.page_with(path, "window.hacked")
        assert "<script>window" not in page
        assert "<img" not in page


@pytest.mark.parametrize(
    "version",
    [
        '{"version": "1", "created": "2026-01-01T00:00:00"}',
        '{"version": "1", "created": "0001-01-01T00:00:00+14:00"}',
        '{"version": "1", "created": "9999-12-31T23:59:59-14:00"}',
        '{"version": "1", "size": 1%s}' % ("0" * 400),
        '{"version": "1", "fileCount": -1}',
        '{"version": "1", "tensors": [{"name": "w", "shape": [1%s]}]}' % ("0" * 5000),
    ],
    ids=["no time zone", "before all", "after all", "huge size", "negative count", "huge shape"],
)
async def test_a_config_map_that_makes_no_sense_hides_no_other_model(
    site: Site, version: str
) -> None:
    publish(site, make("1"))
    body = manifest(make("1"), site.namespace, "bad")
    body["data"] = {DATA_KEY: f'{{"name": "bad", "versions": [{version}]}}'}
    site.api.create(CONFIG_MAPS, body)

    page = await site.page_with("/models", site.namespace)
    await site.get(f"/models/{site.namespace}/bad", status=404)
    assert [row[0] for row in rows(page) if row[6] == site.namespace] == ["mnist"]


async def test_a_version_that_cannot_be_read_says_so(site: Site) -> None:
    broken = tuple(replace(row, problem="x.onnx is cut off") for row in make("1").versions)
    publish(site, replace(make(), versions=broken))

    assert "x.onnx is cut off" in await site.page_with(address(site), "version 1")


async def test_a_download_that_fails_on_the_way_is_cut_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the browser would store a part of the files as if it were all of them."""

    async def chunks(*_: object) -> AsyncIterator[bytes]:
        yield b"the beginning"
        raise MusterError("the pod is gone")

    monkeypatch.setattr(model_runs, "download", chunks)
    publish(site, make("1"))
    await site.page_with(address(site), "mnist")

    answer = await site.post(address(site), {"action": "download", "version": "1"})

    assert answer.status == 200
    with pytest.raises(ClientPayloadError):
        await answer.read()
    answer.close()


def test_no_character_of_a_file_name_has_a_meaning_in_the_header() -> None:
    header = attachment('a"; x=\r\nSet-Cookie: b\u202e/../c')["Content-Disposition"]

    assert header == (
        "attachment; filename*=UTF-8''a%22%3B%20x%3D%0D%0ASet-Cookie%3A%20b%E2%80%AE%2F..%2Fc"
    )


async def test_a_model_of_no_job_cannot_be_tried(site: Site) -> None:
    publish(site, replace(make("1"), job=Maker()))
    await site.page_with(address(site), "mnist")

    answer = await site.post(address(site), {"action": "try", "version": "", "input": "{}"})
    assert "does not name the job of the model" in await answer.text()


async def test_a_model_without_its_job_cannot_be_tried_and_says_why(site: Site) -> None:
    publish(site, make("1"))
    await site.page_with(address(site), "mnist")

    answer = await site.post(address(site), {"action": "try", "version": "", "input": "{}"})
    assert answer.status == 200
    assert "the job mnist that made the model is gone" in await answer.text()
    answer = await site.post(address(site), {"action": "try", "version": "", "input": "{<b>"})
    text = await answer.text()
    assert "the input is not JSON" in text
    assert "{&lt;b&gt;" in text
    answer = await site.post(address(site), {"action": "download", "version": "1"})
    assert answer.status == 404
    answer = await site.post(address(site), {"action": "download", "version": "7"})
    assert answer.status == 404
    assert "has no version 7" in await answer.text()


async def test_an_unknown_model_is_a_page_of_its_own(site: Site) -> None:
    assert "There is no model x" in await site.get(f"/models/{site.namespace}/x", status=404)


@pytest.mark.parametrize("policy", [Policy(read_only=True)])
async def test_a_read_only_dashboard_offers_neither_downloads_nor_predictions(site: Site) -> None:
    publish(site, make("1"))
    page = await site.page_with(address(site), "mnist")

    assert "<form" not in page
    answer = await site.post(address(site), {"action": "try", "input": "{}"})
    assert answer.status == 403


def add_exporting_job(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that exports into a directory, on a cluster whose nodes publish nothing."""

    async def elsewhere(_: LiveCluster) -> bool:
        return False

    monkeypatch.setattr(LiveCluster, "is_local", elsewhere)
    made = job("exports", namespace=site.namespace)
    made["metadata"]["annotations"] = {MODEL_DIR: "/models/x"}
    site.api.create(TFJOBS, made)


async def test_a_job_that_exports_into_a_volume_has_a_button(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_exporting_job(site, monkeypatch)

    page = await site.page_with("/models", "exports", "Read models")

    assert "/models/x" in page
    data = {"namespace": site.namespace, "kind": "TFJob", "name": "exports"}
    answer = await site.post("/models", data)
    assert "the image of Muster is not known" in await answer.text()
    answer = await site.post("/models", {**data, "kind": "Pod"})
    assert answer.status == 404


@pytest.mark.parametrize("policy", [Policy(reader_image="muster:1")])
async def test_a_directory_in_no_volume_has_a_sentence(
    site: Site, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_exporting_job(site, monkeypatch)
    await site.page_with("/models", "exports")

    data = {"namespace": site.namespace, "kind": "TFJob", "name": "exports"}
    answer = await site.post("/models", data)

    assert "no replica of exports mounts /models/x" in await answer.text()


@pytest.mark.parametrize("policy", [Policy(read_only=True)])
async def test_a_read_only_dashboard_starts_no_reader(
    site: Site, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_exporting_job(site, monkeypatch)

    assert "Read models" not in await site.get("/models")
