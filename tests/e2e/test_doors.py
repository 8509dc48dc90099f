"""What a user without a token can do to the API of a local cluster: nothing that others notice."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.ordinary_user import NOBODY, python_for_everyone
from tests.waiting import until

pytestmark = pytest.mark.slow
FLOOD = Path(__file__).with_name("flood.py")
SMALL = 1024
"""The limit of descriptors that a shell has by default."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that `up` starts with a soft limit, and that cannot raise it."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    cluster = LocalCluster(tmp_path_factory.mktemp("doors") / "home")
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
def flood(cluster: LocalCluster, *words: str) -> Iterator[int]:
    """Another user's connections, while the block runs; yields how many it made."""
    port = (cluster.home / "data" / "port").read_text()
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


def test_large_headers_of_another_user_cost_little_memory(cluster: LocalCluster) -> None:
    daemon = psutil.Process(cluster.daemon)
    before = daemon.memory_info().rss
    with flood(cluster, "large-headers", "3"):
        during = daemon.memory_info().rss

    assert during - before < 60 << 20


def test_malformed_requests_of_another_user_do_not_fill_the_log(cluster: LocalCluster) -> None:
    log = cluster.home / "daemon.log"
    before = len(log.read_text().splitlines())
    with flood(cluster, "malformed", "1000"):
        lines = log.read_text().splitlines()[before:]

    assert [line for line in lines if "Traceback" in line or line.startswith("    |")] == []
    assert sum("malformed request from user 65534: " in line for line in lines) == 1
    assert len(lines) <= 3
