"""The first page: its objects are fetched early, and the page says so if they take long."""

from __future__ import annotations

import pytest

from muster.web.access.gate import Policy
from muster.web.access.request_facts import Identity
from muster.web.cluster import watched_objects
from muster.web.cluster.watched_objects import PODS
from muster.web.context import CLUSTERS
from tests.muster.web.site import HTML, Site
from tests.waiting import eventually

PROXY = Policy(proxy_hosts=("muster.example",))


@pytest.mark.parametrize("policy", [PROXY])
async def test_a_page_whose_objects_take_long_says_so_and_opens_by_itself(
    site: Site, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_objects, "PATIENCE_SECONDS", 0.0)
    site.add_job("slow")
    headers = {"Host": "muster.example", **HTML}
    headers["Authorization"] = site.endpoint.credentials.get().authorization

    first = await site.client.get("/jobs", headers=headers)
    assert first.headers["Refresh"] == "0"
    assert "data-loading" in await first.text()
    second = await site.client.get("/jobs", headers=headers)  # as the browser does by itself
    assert "Refresh" not in second.headers
    assert "slow" in await second.text()
    part = {**headers, "HX-Request": "true", "HX-Target": "jobs"}
    assert "data-loading" not in await (await site.client.get("/jobs", headers=part)).text()


async def test_the_login_fetches_the_objects_of_the_first_page(site: Site) -> None:
    clusters = site.client.server.app[CLUSTERS]  # type: ignore[attr-defined]
    with clusters.use(Identity("", site.endpoint, secret="", csrf="")) as cluster:
        await eventually(lambda: PODS in cluster._objects and not cluster.loading)
