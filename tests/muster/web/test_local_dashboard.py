"""The dashboard of a local cluster, by the commands and addresses that its owner uses."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.controlplane.processes import free_port
from tests.e2e.local_cluster import LocalCluster

pytestmark = pytest.mark.slow


class Reader:
    """A browser without scripts."""

    def __init__(self) -> None:
        self._open = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar())
        ).open

    def get(self, url: str) -> str:
        request = urllib.request.Request(url, headers={"Accept": "text/html"})
        with self._open(request, timeout=20) as answer:
            text: str = answer.read().decode()
        # The objects may still be on the way.
        return self.get(url) if "data-loading" in text else text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("dashboard"))
    # While it is down, another cluster of this machine would take a port that all try first.
    started = cluster.arena("up", "--detach", f"--dashboard-port={free_port()}")
    assert "dashboard: http://127.0.0.1:" in started.stderr
    assert "?token=" not in (cluster.home / "daemon.log").read_text()
    yield cluster
    cluster.down()


def dashboard(cluster: LocalCluster) -> str:
    url: str = json.loads(cluster.arena("status", "-o", "json").stdout)["dashboard"]
    return url


def has_templates(cluster: LocalCluster) -> bool:
    """Whether the daemon has loaded the library of the pages."""
    return "markupsafe" in Path(f"/proc/{cluster.daemon}/maps").read_text()


def test_addresses_of_commands_work_once_and_the_session_survives_a_restart(
    cluster: LocalCluster,
) -> None:
    url = dashboard(cluster)
    page, token = url.split("?token=")
    assert not has_templates(cluster)  # nobody has looked, so nothing is loaded

    reader = Reader()
    assert "Logged in." in reader.get(url)
    assert "Map of the cluster" in reader.get(page)
    assert "No jobs yet" in reader.get(f"{page}jobs")
    assert has_templates(cluster)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        Reader().get(f"{page}jobs?token={token}")

    cluster.submit("shown", "--workers=1", command="sleep 1000")
    own = cluster.arena("logviewer", "shown").stdout.strip()
    assert own.startswith(f"{page}jobs/default/TFJob/shown?token=")
    assert "Logged in." in Reader().get(own)

    cluster.down()
    cluster.up()
    assert dashboard(cluster).startswith(page)  # the same port
    assert "shown" in reader.get(f"{page}jobs")


def test_many_readers_of_one_job_do_not_hold_up_the_cluster(cluster: LocalCluster) -> None:
    cluster.submit("over", "--wait", command="true")
    login = dashboard(cluster)
    page = f"{login.partition('?')[0]}jobs/default/TFJob/over"
    reader = Reader()
    reader.get(login)
    assert "SUCCEEDED" in reader.get(page)

    # The page asks the API server for the logs of attempts, and the server needs a thread for its
    # answer. Both are in one process, which has few threads.
    begin = time.monotonic()
    with ThreadPoolExecutor(32) as readers:
        pages = list(readers.map(lambda _: reader.get(page), range(64)))

    assert time.monotonic() - begin < 20
    assert all("SUCCEEDED" in text for text in pages)


def test_muster_dashboard_serves_the_same_pages_until_a_signal(cluster: LocalCluster) -> None:
    kubeconfig = str(cluster.home / "kubeconfig")
    serving = cluster.start("dashboard", "--kubeconfig", kubeconfig, "--read-only", "--port=0")
    try:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        reader = Reader()
        reader.get(url)
        page = reader.get(url.partition("?")[0])
        assert "read-only" in page
        assert "Map of the cluster" in page
    finally:
        serving.send_signal(signal.SIGTERM)
        _, err = serving.communicate(timeout=20)
    assert serving.returncode == 0, err


def test_a_cluster_may_have_no_dashboard_or_another_port(cluster: LocalCluster) -> None:
    cluster.down()
    cluster.up("--no-dashboard")
    assert "dashboard" not in json.loads(cluster.arena("status", "-o", "json").stdout)
    missing = cluster.arena("open", "--print", check=False)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "started without its dashboard" in missing.stderr
    cluster.down()

    refused = cluster.arena("up", "--detach", "--dashboard-port=1x", check=False)
    assert refused.returncode == 2
    cluster.up("--dashboard-port=0")
    assert "?token=" in dashboard(cluster)
