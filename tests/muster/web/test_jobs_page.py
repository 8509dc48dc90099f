"""`/jobs` and `/jobs/NAMESPACE/KIND/NAME` on a local API server."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar

from kubekit.objects.meta import Key, Raw, key_of
from muster.contract.job_kinds import TFJOBS
from muster.jobs.view import summary
from muster.jobs.view.summary import JobSummary
from muster.web.access.keys import new_token
from muster.web.access.request_facts import Identity
from muster.web.cluster import live_cluster
from muster.web.cluster.live_cluster import LiveClusters, PageCache
from muster.web.pages import job as job_pages
from tests.muster.web.objects import HOSTILE
from tests.muster.web.site import Site, rows


async def test_the_list_shows_jobs_and_what_the_filter_lets_through(site: Site) -> None:
    site.add_job("resnet", workers=2, gpus=1, state="Running")
    site.add_job("bert", kind="PyTorchJob", state="Failed", message="the disk is full")
    path = f"/jobs?namespace={site.namespace}"

    page = await site.page_with(path, "resnet", "bert")
    assert "2 jobs" in page
    one = rows(await site.part(f"{path}&state=FAILED", "jobs"))
    assert [row[2:4] for row in one] == [["PyTorchJob", "FAILED"]]
    assert "the disk is full" in one[0][0]
    assert "No job matches this filter." in await site.get(f"{path}&text=nothing")


async def test_a_part_comes_without_the_rest_of_the_page(site: Site) -> None:
    part = await site.part("/jobs", "jobs")

    assert part.lstrip().startswith('<section id="jobs"')
    assert "<html" not in part
    assert "<html" in await site.part("/jobs", "messages")


async def test_text_of_the_cluster_is_escaped(site: Site) -> None:
    site.add_job("hostile", state="Failed", message=HOSTILE)
    path = f"/jobs?namespace={site.namespace}"
    for address in (path, f"{path}&text={HOSTILE}", f"/jobs/{site.namespace}/TFJob/hostile"):
        page = await site.page_with(address, "window.hacked")
        assert "<script>window" not in page
        assert "<img" not in page


async def test_an_unknown_job_names_the_nearest_one(site: Site) -> None:
    site.add_job("resnet")
    await site.page_with(f"/jobs?namespace={site.namespace}", "resnet")

    page = await site.get(f"/jobs/{site.namespace}/TFJob/resnt", status=404)
    assert f"There is no TFJob named resnt in namespace {site.namespace}." in page
    assert "Did you mean resnet?" in page
    assert "There is no page /nothing." in await site.get("/nothing", status=404)


async def test_a_deleted_job_leaves_the_list(site: Site) -> None:
    site.add_job("short")
    path = f"/jobs?namespace={site.namespace}"
    await site.page_with(path, "short")

    site.api.delete(TFJOBS, Key(site.namespace, "short"))
    await site.page_with(path, "0 jobs")


async def test_unchanged_jobs_are_not_read_again(site: Site) -> None:
    """Thousands of jobs are quick because their summaries are kept."""
    clusters = LiveClusters()
    with clusters.use(Identity("", site.endpoint, secret="", csrf="")) as cluster:
        site.add_job("first", state="Running")
        now = datetime.now(UTC)
        job = [await cluster.job("TFJob", Key(site.namespace, "first"))]
        one, two = cluster.summaries(job, now), cluster.summaries(job, now)
    await clusters.close()

    assert one[0] is two[0]
    assert one[0].status == "RUNNING"


async def test_a_job_is_read_once_for_its_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add_job("once", state="Succeeded")
    path = f"/jobs/{site.namespace}/TFJob/once"
    await site.page_with(path, "once")
    made: list[str] = []

    def summarize(raw: Raw, *arguments: Any) -> JobSummary:
        made.append(key_of(raw).name)
        return summary.summarize(raw, *arguments)

    monkeypatch.setattr(live_cluster, "summarize", summarize)
    monkeypatch.setattr(job_pages, "summarize", summarize)
    site.add_job("again", state="Succeeded")
    await site.page_with(f"/jobs/{site.namespace}/TFJob/again", "again")
    await site.get(path)

    assert made.count("again") <= 1
    assert "once" not in made


async def test_the_page_of_a_job_leaves_the_summaries_of_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        site.add_job(name, state="Succeeded")
    path = f"/jobs?namespace={site.namespace}"
    await site.page_with(path, "first", "second")
    await site.get(f"/jobs/{site.namespace}/TFJob/first")
    made: list[str] = []

    def summarize(raw: Raw, *arguments: Any) -> JobSummary:
        made.append(str(key_of(raw)))
        return summary.summarize(raw, *arguments)

    monkeypatch.setattr(live_cluster, "summarize", summarize)
    await site.get(f"{path}&text=first")

    assert not [key for key in made if key.startswith(f"{site.namespace}/")]


async def test_readers_of_one_page_have_their_own_csrf_tokens(site: Site) -> None:
    """The text of a page is made once for readers who load it together."""
    await site.get("/jobs")
    async with ClientSession(site.origin, cookie_jar=CookieJar(unsafe=True)) as other:
        await other.get("/", params={"token": new_token(site.policy.keys)})
        first, second = await asyncio.gather(site.client.get("/jobs"), other.get("/jobs"))
        texts = [await first.text(), await second.text()]

    tokens = [re.findall(r'data-csrf="([^"]+)"', text) for text in texts]
    assert len({*tokens[0], *tokens[1]}) == 2
    assert texts[0].replace(tokens[0][0], tokens[1][0]) == texts[1]


async def test_a_page_is_made_once_for_readers_who_come_together() -> None:
    calls: list[str] = []

    def make() -> str:
        calls.append("made")
        return "text"

    cache = PageCache()
    assert await asyncio.gather(*(cache.text("key", make) for _ in range(5))) == ["text"] * 5
    await cache.text("other", make)
    assert calls == ["made", "made"]
