"""`/`, `/line` and `/history` in a browser: a gang waits with its reason, gets room, all turn."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from kubekit.objects.kinds import NODES
from kubekit.objects.meta import Key
from tests.e2e.local_cluster import LocalCluster
from tests.muster.web.objects import HOSTILE
from tests.muster.words import short

pytestmark = pytest.mark.slow


def test_a_gang_waits_on_both_pages_and_both_turn_when_there_is_room(
    page: Page, cluster: LocalCluster
) -> None:
    line = page.context.new_page()
    line.goto(page.url.rstrip("/") + "/line")
    expect(page.locator(".node")).to_have_count(2)
    expect(line.locator("#line")).to_contain_text("every pod has a node")
    for tab in (page, line):
        tab.evaluate("window.sameDocument = true")

    cluster.submit("first", "--workers=2", "--gpus=2", "--gang", command="sleep 1000")
    page.bring_to_front()
    expect(page.locator(".cells a.run", has_text="FI")).to_have_count(2)
    cluster.submit("second", "--workers=2", "--gpus=1", "--gang", command="sleep 1000")
    expect(page.locator(".waiting li")).to_contain_text(short(2))
    expect(page.locator(".numbers")).to_contain_text("1 waiting")
    line.bring_to_front()
    row = line.locator(".line > li", has_text="second")
    expect(row.locator(".place")).to_contain_text("1")
    expect(row.locator(".why")).to_contain_text("0 of 2 workers fit")
    expect(row).to_contain_text("Who has nvidia.com/gpu")
    expect(row.get_by_role("link", name="first")).to_be_visible()

    cluster.arena("delete", "first")
    expect(row).to_have_count(0)
    expect(line.locator("tr", has_text="second")).to_contain_text("ago")
    page.bring_to_front()
    expect(page.locator(".waiting")).to_have_count(0)
    expect(page.locator(".cells a.run", has_text="SE")).to_have_count(1)
    for tab in (page, line):
        assert tab.evaluate("window.sameDocument") is True


def test_cells_tell_about_their_job_and_lead_to_it(page: Page, cluster: LocalCluster) -> None:
    cell = page.locator(".cells a.run", has_text="SE")
    cell.hover()
    expect(page.locator(".tooltip")).to_have_text("TFJob default/second: 2 GPUs, 2 pods")
    page.mouse.move(0, 0)
    expect(page.locator(".tooltip")).to_be_hidden()
    page.keyboard.press("Tab")
    cell.focus()
    expect(page.locator(".tooltip")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(
        page.url.partition("/jobs")[0].rstrip("/") + "/jobs/default/TFJob/second"
    )


def test_a_cordoned_node_is_marked_and_hostile_labels_do_not_run(
    page: Page, cluster: LocalCluster
) -> None:
    with cluster.client() as client:
        kind = NODES.read_as(dict)
        name = client.list(kind).items[0]["metadata"]["name"]
        taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
        spec = {"unschedulable": True, "taints": [taint]}
        client.patch(kind, Key("", name), {"spec": spec})
        node = page.locator(".node", has_text=name)
        expect(node).to_contain_text("cordoned")
        expect(node).to_contain_text("tainted")
        page.get_by_role("link", name="problems 1").click()
        expect(page.locator(".node")).to_have_count(1)
        page.get_by_label("Node or job").fill(HOSTILE)
        expect(page.locator("#cluster")).to_contain_text("No node matches this filter.")
        client.patch(kind, Key("", name), {"spec": {"unschedulable": None, "taints": None}})
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_history_has_a_bar_and_curves_and_goes_on_with_the_clock(page: Page) -> None:
    page.clock.install()
    page.goto(page.url.rstrip("/") + "/history?hours=1")
    lane = page.locator(".lane", has_text="second")
    expect(lane.locator("rect.run")).to_have_count(1)
    # Without a pointer, the legend has the newest value.
    expect(page.locator("#chart-gpus .u-legend")).to_contain_text("in use2")
    page.evaluate("window.canvas = document.querySelector('#chart-gpus canvas')")

    with page.expect_response(lambda response: "/history" in response.url):
        page.clock.run_for(31_000)
    expect(lane.locator("rect.run")).to_have_count(1)
    assert page.evaluate("window.canvas.isConnected") is True  # not drawn anew: nothing flickers
