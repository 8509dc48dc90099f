"""`/jobs/NAMESPACE/KIND/NAME` in a browser: logs that move, curves, changes, hostile text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from muster.jobs import job_sentences
from tests.e2e.local_cluster import LocalCluster

pytestmark = pytest.mark.slow

HOSTILE_TAG = "</script><img src=x onerror=window.hacked=1>"
TRAIN = """
import sys, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

out = sys.stdout.buffer
out.write(b"\\x1b[32mgreen\\x1b[0m nul \\x00 latin caf\\xe9\\n")
out.write(b"<script>window.hacked=1</script>\\n\\"><img src=x onerror=window.hacked=1>\\n")
out.write(b"\\x1b]0;title\\x07{{7*7}}\\n" + b"x" * (1 << 20) + b"\\n")
out.flush()
writer = EventFileWriter(sys.argv[1])
for step in range(100000):
    for tag in ("loss", HOSTILE_TAG):
        value = Summary.Value(tag=tag, simple_value=1 / (step + 1))
        writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
    writer.flush()
    print("step", step, flush=True)
    time.sleep(0.2)  # pace: a program that trains
"""
TWICE = """
import os, sys
if os.path.exists(sys.argv[1]):
    print("second try")
else:
    open(sys.argv[1], "w").close()
    print("first try")
    sys.exit(1)
"""


def address(page: Page, name: str) -> str:
    return f"{page.url.partition('/jobs')[0].rstrip('/')}/jobs/default/TFJob/{name}"


@pytest.fixture(scope="module")
def training(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job of two workers that writes hostile lines and scalars until it is stopped."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(TRAIN.replace("HOSTILE_TAG", repr(HOSTILE_TAG)))
    cluster.submit(
        "train", "--workers=2", f"--data-dir={folder}", "--tensorboard", f"--logdir={folder}/logs",
        command=f"python {folder}/train.py {folder}/logs",
    )  # fmt: skip
    return "train"


def test_logs_are_followed_and_searched_and_execute_nothing(page: Page, training: str) -> None:
    page.goto(address(page, training))
    log = page.locator("#log")
    expect(log).to_contain_text("step 3")
    expect(page.locator("#log b").first).to_contain_text("worker-")

    for text in (
        "green nul ␀ latin caf\ufffd", "<script>window.hacked=1</script>",
        '"><img src=x onerror=window.hacked=1>', "{{7*7}}", "more bytes",
    ):  # fmt: skip
        expect(log).to_contain_text(text)
    assert page.locator("#log script, #log img").count() == 0
    page.get_by_label("Search").fill("STEP 1")
    expect(page.locator("#log mark").first).to_have_text("step 1")
    expect(page.locator("#log-count")).to_have_text(re.compile(r"^\d+ lines? match(es)?$"))
    page.get_by_label("Only matches").check()
    expect(log.get_by_text("green nul").first).to_be_hidden()
    page.get_by_label("Search").press("Enter")
    expect(page.locator("#log .current")).to_have_count(1)
    expect(page.get_by_label("Follow")).not_to_be_checked()


def test_another_tab_has_the_whole_log_over_the_same_stream(page: Page, training: str) -> None:
    streams: list[str] = []
    page.context.on(
        "request", lambda request: streams.append(request.url) if "/stream" in request.url else None
    )
    tab = page.context.new_page()
    for each in (page, tab):
        each.goto(address(page, training))
        each.bring_to_front()
        expect(each.locator("#log")).to_contain_text("green nul")
    tab.get_by_role("link", name="Logs of train-worker-1").click()

    expect(tab.locator("#log")).to_contain_text("step 1")
    expect(tab.locator("#log b")).to_have_count(0)
    with tab.expect_download() as download:
        tab.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "train-worker-1.log"
    assert b"\x1b[32mgreen" in Path(download.value.path()).read_bytes()
    assert not [url for url in streams if url.endswith("/stream")]


def test_curves_scalars_and_the_cluster_spec_appear(page: Page, training: str) -> None:
    page.goto(address(page, training))
    expect(page.locator("#usage figcaption", has_text="CPU")).to_be_visible()
    page.locator("#spec summary").click()
    expect(page.locator("#cluster_spec")).to_contain_text('"worker": [')

    scalars = page.locator("#scalars figcaption")
    expect(scalars.first).to_have_text("loss", timeout=60_000)
    expect(scalars.nth(1)).to_have_text(HOSTILE_TAG)
    link = page.get_by_role("link", name="TensorBoard").get_attribute("href")
    assert link is not None
    assert link.startswith("http://127.0.0.1:")
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_job_is_suspended_resumed_and_deleted_with_the_keyboard(
    page: Page, cluster: LocalCluster, training: str
) -> None:
    page.goto(address(page, training))
    state = page.locator("#job h1 .chip")
    page.get_by_role("button", name="Suspend").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Suspend train?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("Enter")  # the focus is on the button again
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(state).to_have_text("SUSPENDED")
    expect(dialog).to_be_hidden()
    # The button that had the focus must not become another one under its old name.
    expect(page.get_by_role("button", name="Suspend")).to_have_count(0)
    expect(page.locator("[data-dialog=delete-dialog]")).to_have_text("Delete")
    page.reload()
    expect(page.locator("#job tbody tr").first).to_contain_text("Stopped")
    expect(page.locator("#log b").first).to_be_visible()  # its lines from before are there
    expect(page.locator("#log .note")).to_contain_text(job_sentences.suspended("TFJob", "train"))

    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("RUNNING", timeout=30_000)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/jobs")
    expect(page.locator("#jobs tr", has_text="train")).to_have_count(0)


def test_logs_of_earlier_attempts_and_of_pods_that_are_gone_are_read(
    page: Page, cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "twice.py").write_text(TWICE)
    cluster.submit(
        "twice", "--retry=3", f"--data-dir={tmp_path}", "--clean-task-policy=All",
        command=f"python {tmp_path}/twice.py {tmp_path}/mark",
    )  # fmt: skip
    page.goto(address(page, "twice"))
    expect(page.locator("#job h1 .chip")).to_have_text("SUCCEEDED", timeout=60_000)
    expect(page.locator("#job tbody")).to_contain_text("Its pod is gone", timeout=30_000)
    page.reload()

    expect(page.locator("#log")).to_contain_text("second try")
    page.get_by_label("Attempt").select_option("1 of 2")
    expect(page.locator("#log")).to_contain_text("first try")
    expect(page.locator("#log")).not_to_contain_text("second try")
    expect(page.locator("#log-state")).to_have_text("This is the end of the log.")


def test_a_change_that_is_refused_says_why_and_a_deleted_job_says_so(
    page: Page, cluster: LocalCluster
) -> None:
    cluster.submit("brief", command="sleep 600")
    page.goto(address(page, "brief"))
    expect(page.locator("#job h1 .chip")).to_have_text("RUNNING", timeout=30_000)
    page.route("**/brief", lambda route: route.continue_() if route.request.method == "GET"
               else route.fulfill(status=409, body="brief has ended."))  # fmt: skip
    page.get_by_role("button", name="Suspend").click()
    page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
    messages = page.locator("#messages")
    expect(messages).to_have_text("brief has ended.")
    with page.expect_response(lambda answer: answer.request.method == "GET"):
        page.evaluate("htmx.trigger('#job', 'changed')")  # a live update does not hide it
    expect(messages).to_have_text("brief has ended.")
    page.keyboard.press("Escape")
    expect(messages).to_be_hidden()

    cluster.arena("delete", "brief")
    expect(messages).to_have_text("This was deleted. The page shows its last state.")
    expect(page.locator("#job.gone")).to_have_count(1)
