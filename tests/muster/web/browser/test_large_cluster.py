"""Every page in a browser with 1,000 nodes, 5,000 pods and 2,000 jobs: whole, live, one stream.

How fast they are is measured by `benchmarks/dashboard.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from benchmarks.large_cluster import Dashboard, Size, fill, serving
from playwright.sync_api import Browser, Page, expect

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.meta import Key
from muster.contract.job_kinds import TFJOBS

pytestmark = pytest.mark.long
SIZE = Size()


@pytest.fixture(scope="module")
def dashboard(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    folder = tmp_path_factory.mktemp("large")
    with serving(folder) as dashboard:
        with ThreadPoolExecutor(1) as pool:  # Playwright has the event loop of this thread
            pool.submit(asyncio.run, fill(dashboard.kubeconfig, SIZE)).result()
        yield dashboard


@pytest.fixture
def page(browser: Browser, dashboard: Dashboard) -> Iterator[Page]:
    """A browser that is logged in; every error in its console fails the test."""
    errors: list[str] = []
    context = browser.new_context()
    context.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.on(
        "console",
        lambda line: (
            errors.append(f"{line.text} {line.location}") if line.type == "error" else None
        ),
    )
    page = context.new_page()
    page.goto(dashboard.address())
    expect(page.locator("#connection")).to_have_text("live")
    yield page
    context.close()
    expect.set_options(timeout=5_000)
    assert errors == []


def test_every_page_of_the_navigation_opens(page: Page) -> None:
    links = page.get_by_role("navigation", name="Pages").get_by_role("link").all()
    addresses = [link.get_attribute("href") for link in links]
    assert len(addresses) >= 3
    for address in addresses:
        page.get_by_role("navigation", name="Pages").locator(f'a[href="{address}"]').click()
        expect(page.locator(f'nav a[href="{address}"]')).to_have_attribute("aria-current", "page")
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("[data-loading]")).to_have_count(0)


def test_the_cluster_and_the_line_are_whole(page: Page, dashboard: Dashboard) -> None:
    page.goto(f"{dashboard.url}/")
    expect(page.locator("#cluster")).to_contain_text("1,000")
    page.goto(f"{dashboard.url}/line")
    expect(page.locator("#line")).to_contain_text(f"{SIZE.waiting:,} jobs waiting")


def test_jobs_are_counted_filtered_and_opened(page: Page, dashboard: Dashboard) -> None:
    page.goto(f"{dashboard.url}/jobs")
    expect(page.locator("#jobs caption")).to_contain_text(f"{SIZE.jobs:,} jobs")
    page.get_by_label("Text").press_sequentially("job-1234")
    expect(page.locator("#jobs tbody tr")).to_have_count(1)
    expect(page.locator("#jobs tbody tr")).to_contain_text("PENDING")

    page.get_by_role("link", name="job-1234").click()
    expect(page.locator("h1")).to_contain_text("job-1234")
    expect(page.locator("body")).to_contain_text("job-1234-worker-0")


def test_a_change_reaches_ten_tabs_over_one_stream(page: Page, dashboard: Dashboard) -> None:
    page.goto(f"{dashboard.url}/jobs?text=job-0042")
    expect(page.locator("#connection")).to_have_text("live")
    streams: list[str] = []
    page.context.on(
        "request", lambda request: streams.append(request.url) if "/stream" in request.url else None
    )
    tabs = [page, *(page.context.new_page() for _ in range(9))]
    for tab in tabs[1:]:
        tab.goto(page.url)
        expect(tab.locator("#connection")).to_have_text("live")
    row = "tr:has-text('job-0042')"
    expect(page.locator(row)).to_contain_text("RUNNING")

    key = Key("team-2", "job-0042")
    done = {"type": "Succeeded", "status": "True", "reason": "JobSucceeded", "message": "done"}
    with BlockingClient(kube_config.load(dashboard.kubeconfig)) as api:
        api.patch(TFJOBS, key, {"status": {"conditions": [done]}}, subresource="status")

    for tab in tabs:
        tab.bring_to_front()
        expect(tab.locator(row)).to_contain_text("SUCCEEDED")
    assert not [url for url in streams if url.endswith("/stream")]
