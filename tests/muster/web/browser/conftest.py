"""A browser (Debian's chromium, driven by Playwright) on the dashboard of a local cluster.

Where chromium is missing, these tests are skipped, unless MUSTER_REQUIRE names `chromium`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.e2e.local_cluster import LocalCluster
from tests.muster.web.browser import chromium
from tests.prerequisites import missing_prerequisite


@pytest.fixture(scope="package")  # its loop must end before async tests of other packages
def browser() -> Iterator[Browser]:
    if chromium.executable() is None:
        missing_prerequisite("chromium", "chromium is not installed")
    with chromium.launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A local cluster with two nodes of two GPUs, shared by the tests of a file."""
    cluster = LocalCluster(tmp_path_factory.mktemp("dashboard"))
    cluster.up("--nodes=2", "--gpus-per-node=2")
    yield cluster
    cluster.down()


def _is_expected(line: ConsoleMessage) -> bool:
    """Whether the browser mentions that a form came back with errors at its fields, that a change
    was refused, or that the page of a job which was just deleted asked for it once more."""
    refused = "status of 400" in line.text and line.location["url"].endswith("/submit")
    refused = refused or "status of 409" in line.text or "Error Code 409 from /jobs/" in line.text
    gone = "status of 404" in line.text and "/jobs/" in line.location["url"]
    return refused or gone or "Error Code 404 from /jobs/" in line.text


@pytest.fixture
def page(browser: Browser, cluster: LocalCluster) -> Iterator[Page]:
    """A page of a new browser, logged in; every error in its console fails the test."""
    errors: list[str] = []
    context = browser.new_context()
    context.set_default_timeout(15_000)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.on(
        "console",
        lambda line: (
            errors.append(f"{line.text} {line.location}")
            if line.type == "error" and not _is_expected(line)
            else None
        ),
    )
    page = context.new_page()
    page.goto(cluster.arena("open", "--print").stdout.strip())
    page.wait_for_selector("#connection[data-connected=true]")
    yield page
    assert page.evaluate("window.hacked") is None
    seen = list(errors)  # without those of requests that end with the page
    context.close()
    assert seen == []
