"""`/jobs` in a browser: live changes, filters that keep the focus, one stream for ten tabs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.local_cluster import LocalCluster

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def jobs_page(page: Page) -> None:
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.wait_for_selector("#connection[data-connected=true]")


def test_a_job_appears_waits_with_a_reason_and_turns_without_a_reload(
    page: Page, cluster: LocalCluster
) -> None:
    expect(page.locator("#jobs")).to_contain_text("No jobs yet")
    page.evaluate("window.sameDocument = true")

    cluster.submit("first", "--workers=2", "--gpus=2", "--gang", command="sleep 1000")
    row = page.locator("tr", has_text="first")
    expect(row).to_contain_text("RUNNING")
    expect(page.get_by_label("Kind").locator("option")).to_have_text(["all", "TFJob"])
    cluster.submit("second", "--workers=1", "--gpus=1", "--gang", command="sleep 1000")
    waiting = page.locator("tr", has_text="second")
    expect(waiting).to_contain_text("PENDING")
    expect(waiting.locator(".reason")).to_contain_text("nvidia.com/gpu")
    cluster.arena("delete", "first")

    expect(row).to_have_count(0)
    expect(waiting).to_contain_text("RUNNING")
    assert page.evaluate("window.sameDocument") is True


def test_the_filter_is_typed_without_losing_the_focus(page: Page, cluster: LocalCluster) -> None:
    page.get_by_label("Text").press_sequentially("nothing like this", delay=20)

    expect(page.locator("#jobs")).to_contain_text("No job matches this filter.")
    expect(page.get_by_label("Text")).to_be_focused()
    expect(page.get_by_label("Text")).to_have_value("nothing like this")
    assert "text=nothing%20like%20this" in page.url
    page.get_by_label("Text").fill("")
    expect(page.locator("#jobs")).not_to_contain_text("No job matches this filter.")
    page.get_by_role("link", name="Name", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Name")
    page.reload()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Name")


def test_ten_tabs_share_one_stream(page: Page, cluster: LocalCluster) -> None:
    """A browser allows six connections to a host; a stream per tab would use them up."""
    streams: list[str] = []
    page.context.on(
        "request", lambda request: streams.append(request.url) if "/stream" in request.url else None
    )
    tabs = [page.context.new_page() for _ in range(9)]
    for tab in tabs:
        tab.goto(page.url)
        expect(tab.locator("#connection")).to_have_text("live")

    cluster.submit("tabs", "--workers=1", command="sleep 1000")
    for tab in (page, *tabs):
        tab.bring_to_front()
        expect(tab.locator("tr", has_text="tabs")).to_have_count(1)
    assert not [url for url in streams if url.endswith("/stream")]


def test_the_theme_stays_chosen_and_a_phone_shows_the_page(page: Page) -> None:
    page.get_by_role("button", name="Dark theme").click()
    page.reload()
    expect(page.locator("html[data-theme=dark]")).to_have_count(1)

    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_keys_reach_the_content(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_another_browser_needs_an_address_of_its_own(
    browser: Browser, cluster: LocalCluster, page: Page
) -> None:
    stranger = browser.new_context().new_page()
    stranger.goto(page.url)

    expect(stranger.locator("h1")).to_have_text("Not logged in")
    stranger.context.close()
