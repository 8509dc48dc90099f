"""What does not end a local cluster: users without a token, a component that fails, a lack of
descriptors."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import psutil
import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import EVENTS
from tests.e2e.local_cluster import ARENA, LocalCluster
from tests.ordinary_user import NOBODY, python_for_everyone
from tests.waiting import until

pytestmark = pytest.mark.slow
FLOOD = Path(__file__).with_name("flood.py")
SMALL = 1024
"""The limit of descriptors that a shell has by default."""


FAULT = """
import errno, os, sys
if "up" in sys.orig_argv and "-m" in sys.orig_argv:
    from muster.scheduler.daemon import Service
    run = Service.run
    async def faulty(self):
        if os.path.exists(os.environ["FAULT"]):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        await run(self)
    Service.run = faulty
"""
"""Python runs `sitecustomize` at its start: the daemon's scheduler fails while a file exists."""


@pytest.fixture(scope="module")
def fault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fault")
    (folder / "sitecustomize.py").write_text(FAULT)
    (folder / "fault").touch()
    return folder / "fault"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, fault: Path) -> Iterator[LocalCluster]:
    """A cluster that `up` starts with a soft limit, and that cannot raise it."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    cluster = LocalCluster(tmp_path_factory.mktemp("doors") / "home")
    cluster.env |= {"PYTHONPATH": str(fault.parent), "FAULT": str(fault)}
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.prlimit(0, resource.RLIMIT_NOFILE, (SMALL, limit[1]))
    try:
        cluster.up()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    # The daemon has raised its limit: take it away, as a machine with a small hard limit would.
    assert resource.prlimit(cluster.daemon, resource.RLIMIT_NOFILE) == (limit[1], limit[1])
    resource.prlimit(cluster.daemon, resource.RLIMIT_NOFILE, (SMALL, SMALL))
    yield cluster
    cluster.down()


@contextmanager
def flood(cluster: LocalCluster, *words: str, port: str = "port") -> Iterator[int]:
    """Another user's connections, while the block runs; yields how many it made."""
    port = (cluster.home / "data" / port).read_text()
    with subprocess.Popen(
        [python_for_everyone(), "-c", FLOOD.read_text(), port, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


def test_a_component_that_fails_is_reported_and_started_again(
    cluster: LocalCluster, fault: Path
) -> None:
    problem = "scheduler failed: Too many open files; "
    text = until(lambda: _line(cluster.arena("status").stdout, problem), what="the failure")
    status = json.loads(cluster.arena("status", "-o", "json").stdout)
    with BlockingClient(kube_config.load(cluster.home / "kubeconfig")) as client:
        checks = client.ready_checks()
        events = until(
            lambda: [
                e
                for e in client.list(EVENTS.read_as(dict)).items
                if e["reason"] == "ComponentFailed"
            ]
        )
    cluster.submit("waits", "--workers=1", command="python -c pass")
    fault.unlink()

    assert text.startswith("components:")
    assert status["components"]["operator"] == checks["operator"] == ""
    assert checks["scheduler"].startswith("Too many open files; ")
    assert events[0]["involvedObject"]["kind"] == "Node"
    assert "scheduler failed and is started again: Too many open files" in events[0]["message"]
    cluster.wait_job("waits", "SUCCEEDED")


def _line(text: str, part: str) -> str:
    return next((line for line in text.splitlines() if part in line), "")


def test_a_lack_of_descriptors_delays_pods_and_ends_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    daemon, signal = psutil.Process(cluster.daemon), tmp_path / "signal"
    wait = f"until [ -e {signal} ]; do sleep 0.1; done"
    flags = ("--workers=12", f"--data-dir={tmp_path}")
    idle, lines = daemon.num_fds(), len(cluster.log_tail(10**6).splitlines())
    try:
        # As with hundreds of pods: pods have used up what is not kept for the API.
        _limit(daemon, idle + 12)
        cluster.submit("many", *flags, command=wait)
        until(lambda: "no descriptors left" in cluster.arena("get", "many").stdout, every=0.3)
        described = cluster.arena("get", "many").stdout
        # Now there is room to start pods, and to hold connections to four of them.
        share = idle + 16 + 4
        _limit(daemon, share * 8 // 5 + 1)
        until(lambda: cluster.job("many")["status"] == "RUNNING", what="the job runs", every=0.3)
        running = daemon.num_fds()
        listed = cluster.arena("list")
        signal.touch()
        job = cluster.wait_job("many", "SUCCEEDED")
    finally:
        _limit(daemon, SMALL)

    assert "OutOfDescriptors" in described
    assert "raise `ulimit -n`" in described
    assert running <= share
    assert "many" in listed.stdout
    assert cluster.daemon == daemon.pid
    assert {pod["restarts"] for pod in job["instances"]} == {0}
    log = cluster.log_tail(10**6).splitlines()[lines:]
    assert [line for line in log if "Too many open files" in line or "Traceback" in line] == []


def _limit(daemon: psutil.Process, limit: int) -> None:
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (limit, SMALL))


def test_up_refuses_a_limit_that_is_too_low_for_any_pod(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "home")
    refused = subprocess.run(
        ["sh", "-c", f"ulimit -n 200; exec {ARENA} up --detach"],
        env=cluster.env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.returncode == 1
    assert "needs at least 256 descriptors, and this shell allows 200\n" in refused.stderr
    assert "`ulimit -n 1024`" in refused.stderr
    assert not cluster.home.exists(), "nothing was started"


def test_half_headers_of_another_user_stop_neither_commands_nor_pods(
    cluster: LocalCluster,
) -> None:
    daemon = psutil.Process(cluster.daemon)
    before = daemon.num_fds()
    with flood(cluster, "half-headers", "1200") as connections:
        during = daemon.num_fds()
        listed = cluster.arena("list")
        script = (
            "import os, ssl, urllib.request as u; "
            "d = '/var/run/secrets/kubernetes.io/serviceaccount/'; "
            "r = u.Request('https://%s:%s/api' % (os.environ['KUBERNETES_SERVICE_HOST'], "
            "os.environ['KUBERNETES_SERVICE_PORT']), "
            "headers={'Authorization': 'Bearer ' + open(d + 'token').read()}); "
            "print(u.urlopen(r, context=ssl.create_default_context(cafile=d + 'ca.crt')).status); "
            "import resource; print('limit', resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
        )
        cluster.submit("pod", "--workers=1", command=f'python -c "{script}"')
        cluster.wait_job("pod", "SUCCEEDED")

    assert connections == 1200
    assert during - before < 400, "at most 256 connections, and the components that still start"
    assert listed.returncode == 0
    assert cluster.arena("logs", "pod").stdout.split() == ["200", "limit", str(SMALL)]
    until(lambda: daemon.num_fds() < during - 200, what="the connections are closed")


def test_half_requests_of_another_user_to_the_dashboard_stop_neither_commands_nor_pages(
    cluster: LocalCluster,
) -> None:
    daemon = psutil.Process(cluster.daemon)
    address = cluster.arena("open", "--print").stdout.strip()
    page = address.partition("?")[0] + "jobs"
    owner = build_opener(HTTPCookieProcessor(CookieJar()))
    owner.open(address, timeout=20).close()
    with owner.open(page.replace("/jobs", "/stream"), timeout=20) as stream:
        assert stream.readline() == b"event: hello\n"
        before = daemon.num_fds()
        with flood(cluster, "half-requests", "3000", port="dashboard-port") as connections:
            during = daemon.num_fds()
            listed = cluster.arena("list")
            cluster.submit("beside", "--workers=1", command="python -c pass")
            with owner.open(page, timeout=20) as answer:  # a new connection
                text = answer.read().decode()
            assert stream.readline().startswith(b"data: ")  # an open page
            until(lambda: daemon.num_fds() < before + 32, timeout=30, what="slow ones are closed")

    assert connections == 3000
    # Up to 32 are accepted at once, and closed in one of the next turns of the event loop.
    assert during - before < 256 + 4 * 32, "strangers have the 256 places of the API's strangers"
    assert listed.returncode == 0
    assert "beside" in text


@pytest.mark.parametrize("kind", [("large-headers", "3"), ("large-bodies", "400")])
def test_large_requests_of_another_user_cost_little_memory(
    cluster: LocalCluster, kind: tuple[str, str]
) -> None:
    daemon = psutil.Process(cluster.daemon)
    before = daemon.memory_info().rss
    with flood(cluster, *kind):
        during = daemon.memory_info().rss

    # asyncio's TLS fills a buffer of 256 KiB per connection: 64 MiB for the 256 connections that
    # may be open. Bodies that are read would cost 800 MB.
    assert during - before < 128 << 20


def test_malformed_requests_of_another_user_do_not_fill_the_log(cluster: LocalCluster) -> None:
    log = cluster.home / "daemon.log"
    before, begin = len(log.read_text().splitlines()), time.monotonic()
    with flood(cluster, "malformed", "1000"):
        lines = log.read_text().splitlines()[before:]
    intervals = 1 + int((time.monotonic() - begin) / 10)  # one line is written in each

    assert [line for line in lines if "Traceback" in line or line.startswith("    |")] == []
    malformed = sum("malformed request from user 65534: " in line for line in lines)
    assert 1 <= malformed <= intervals
    assert len(lines) <= malformed + 2
