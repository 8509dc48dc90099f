"""The fixtures that Muster brings for pytest, in a project of a user's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def muster_cluster_settings():
    return {"nodes": 2, "gpus_per_node": 1}
"""
TESTS = """
import muster
from kubernetes import client, config

seen = []

def test_the_api_is_real(muster_cluster):
    config.load_kube_config(str(muster_cluster.kubeconfig))
    assert len(client.CoreV1Api().list_node().items) == 2

def test_a_job_runs(muster_cluster, muster_namespace):
    job = muster.submit("tf", "echo hi", name="j", workers=2, gpus=1, namespace=muster_namespace)
    assert list(job.wait(timeout="1m").logs()) == ["hi"]
    seen.append((muster_cluster.url, muster_namespace))

def test_the_cluster_is_shared_and_the_namespace_is_not(muster_cluster, muster_namespace):
    url, namespace = seen[0]
    assert muster_cluster.url == url
    assert muster_namespace != namespace
    assert muster.list_jobs(namespace=muster_namespace) == []
    print("HOME", muster_cluster.home.root)
"""


def run_pytest(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)


def test_a_users_tests_get_a_cluster_that_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_operator.py").write_text(TESTS)

    ran = run_pytest(tmp_path, "-s")

    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr
    (home,) = re.findall(r"HOME (\S+)", ran.stdout)
    assert not Path(home).exists()


def test_tests_that_ask_for_no_cluster_import_nothing_of_muster(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n"
        "def test_plain():\n"
        "    loaded = {name for name in sys.modules if name.startswith('muster')}\n"
        "    assert loaded <= {'muster', 'muster.version', 'muster.sdk', "
        "'muster.sdk.pytest_plugin'}\n"
    )

    ran = run_pytest(tmp_path)

    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_fixtures_are_listed_with_their_purpose(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text("")

    ran = run_pytest(tmp_path, "--fixtures")

    assert "muster_cluster [session scope]" in ran.stdout
    assert "A local cluster for all tests of the session" in ran.stdout
