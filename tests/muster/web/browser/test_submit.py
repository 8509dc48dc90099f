"""`/submit` and `/history` in a browser: from a form to a job that has run, and its bar."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.local_cluster import LocalCluster
from tests.muster.words import short

pytestmark = pytest.mark.slow


def open_form(page: Page, query: str) -> None:
    page.goto(urljoin(page.url, f"/submit?{query}"))


def test_a_job_of_the_form_runs_until_it_has_succeeded(page: Page, cluster: LocalCluster) -> None:
    open_form(page, "type=tf")
    expect(page.get_by_label("Name required")).to_be_focused()
    page.keyboard.type("Wrong Name")
    page.get_by_label("Command").fill("test $GREETING = hello")
    page.get_by_label("Environment").fill("GREETING=hello\nOTHER=a b")
    page.get_by_label("Name required").press("Enter")

    name = page.get_by_label("Name required")
    expect(name).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_have_accessible_description(
        "Name of the job. --name 'Wrong Name' is not a job name At most 49 lower-case letters, "
        "digits and '-', the first a letter: --name=wrong-name"
    )
    name.fill("form")
    page.get_by_role("button", name="Show the manifest").click()

    expect(page.locator("pre")).to_contain_text("kind: TFJob")
    page.get_by_role("button", name="Back to the form").click()
    expect(page.get_by_label("Environment")).to_have_value("GREETING=hello\nOTHER=a b")
    page.get_by_role("button", name="Show the manifest").click()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/default/TFJob/form")
    expect(page.locator("h1")).to_contain_text("SUCCEEDED")


def test_a_gang_of_the_form_waits_says_why_gets_room_and_shows_its_log(
    page: Page, cluster: LocalCluster
) -> None:
    cluster.submit("holder", "--workers=2", "--gpus=2", "--gang", command="sleep 1000")
    open_form(page, "type=tf")
    page.get_by_label("Name required").fill("gang-of-two")
    page.get_by_label("Command").fill(
        "for step in $(seq 1000); do echo step $step; sleep 0.2; done"
    )
    page.get_by_label("Workers", exact=False).first.fill("2")
    page.get_by_label("GPUs per worker").fill("1")
    page.get_by_label("Gang", exact=False).select_option("true")
    page.get_by_role("button", name="Show the manifest").click()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/default/TFJob/gang-of-two")

    expect(page.locator("#job h1 .chip")).to_have_text("PENDING")
    expect(page.locator("#job")).to_contain_text("0 of 2 workers fit")
    expect(page.locator("#job")).to_contain_text(short(2))
    page.evaluate("window.sameDocument = true")

    holder = page.context.new_page()
    holder.goto(urljoin(page.url, "/jobs/default/TFJob/holder"))
    holder.get_by_role("button", name="Delete").click()
    holder.get_by_role("dialog").get_by_role("button", name="Delete").click()
    holder.wait_for_url("**/jobs")
    page.bring_to_front()
    expect(page.locator("#job h1 .chip")).to_have_text("RUNNING")
    expect(page.locator("#log")).to_contain_text("step 1")
    seen = page.locator("#log > div").count()
    page.wait_for_function("n => document.querySelectorAll('#log > div').length > n", arg=seen + 4)
    assert page.evaluate("window.sameDocument") is True
    cluster.arena("delete", "gang-of-two")


def test_pasted_yaml_runs_and_a_job_is_submitted_again(page: Page, cluster: LocalCluster) -> None:
    open_form(page, "type=yaml")
    page.get_by_label("Manifest").fill("kind: jax\nname: pasted\ncommand: 'true'\nworker: 1")
    page.get_by_role("button", name="Show the manifest").click()
    expect(page.locator(".error")).to_contain_text("did you mean workers?")
    page.get_by_label("Manifest").fill("kind: jax\nname: pasted\ncommand: 'true'\nworkers: 1")
    page.get_by_role("button", name="Show the manifest").click()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("h1")).to_contain_text("SUCCEEDED")

    open_form(page, "from=default/JAXJob/pasted")
    expect(page.get_by_label("Manifest")).to_contain_text("name: pasted-2")
    page.get_by_role("button", name="Show the manifest").click()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/default/JAXJob/pasted-2")
    expect(page.locator("h1")).to_contain_text("SUCCEEDED")


def test_the_history_grows_without_a_reload(page: Page, cluster: LocalCluster) -> None:
    page.goto(urljoin(page.url, "/history?hours=1"))
    expect(page.locator(".u-legend")).to_have_count(3)
    page.evaluate("window.sameDocument = true")

    cluster.submit("gang", "--workers=2", "--gpus=2", "--gang", command="sleep 1000")
    row = page.locator("#history_tables tr", has_text="gang")
    expect(row).to_contain_text("RUNNING")
    expect(row).to_contain_text("muster-0, muster-1")
    lane = page.locator(".lane", has_text="gang")
    expect(lane.locator("rect.run title")).to_contain_text("s on muster-0, muster-1")
    expect(page.locator(".u-legend")).to_have_count(3)
    assert page.evaluate("window.sameDocument") is True
    page.get_by_role("link", name="by node").click()
    expect(page.locator(".lane-name", has_text="muster-1")).to_have_count(1)
    page.locator(".lane", has_text="muster-1").locator("rect.run").last.click()
    expect(page.locator("h1")).to_contain_text("gang")
