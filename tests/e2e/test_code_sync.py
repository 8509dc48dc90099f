"""Code sync on the local cluster: code of a repository on this machine is fetched and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CONFIG_MAPS, SECRETS
from tests.e2e.local_cluster import LocalCluster
from tests.muster.jobs.build.git_repositories import PASSWORD, Repository, served
from tests.prerequisites import missing_prerequisite

pytestmark = pytest.mark.slow

TRAIN = """\
import os, subprocess, sys
print("on", subprocess.check_output(["git", "-C", os.path.dirname(os.path.abspath(__file__)),
      "log", "-1", "--format=%s"], text=True).strip())
print("at", os.path.abspath(__file__))
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--nodes", "1")
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trainer on the main branch, and another commit on a branch."""
    if shutil.which("git") is None:
        missing_prerequisite("git", "there is no git on this machine")
    folder = tmp_path_factory.mktemp("code") / "trainer"
    folder.mkdir()

    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *author, *words], cwd=folder, check=True)

    git("init", "-q", "-b", "main")
    (folder / "train.py").write_text(TRAIN)
    git("add", "train.py")
    git("commit", "-qm", "the first")
    git("checkout", "-qb", "side")
    git("commit", "-qm", "the side", "--allow-empty")
    git("checkout", "-q", "main")
    return folder


def submit(
    local: LocalCluster, name: str, *flags: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    words = ("submit", "jax", f"--name={name}", "--image=python:3.12", *flags, "--wait")
    return local.arena(*words, check=check)


def test_a_job_trains_with_the_code_of_a_local_repository(
    local: LocalCluster, repository: Path
) -> None:
    git = ("--sync-mode=git", f"--sync-source={repository}")
    result = submit(local, "path", *git, "--workers=2", "--gang", "python code/trainer/train.py 0")

    assert "path SUCCEEDED" in result.stderr
    log = local.arena("logs", "path").stdout.splitlines()
    assert log == ["on the first", "at /root/code/trainer/train.py"]


def test_a_branch_is_fetched_by_url_into_the_chosen_working_directory(
    local: LocalCluster, repository: Path
) -> None:
    git = ("--sync-mode=git", f"--sync-source=file://{repository}", "--sync-branch=side")
    submit(local, "url", *git, "--working-dir=/srv/here", "python code/trainer/train.py 0")

    log = local.arena("logs", "url").stdout.splitlines()
    assert log == ["on the side", "at /srv/here/code/trainer/train.py"]


def test_a_directory_is_copied_as_it_is(local: LocalCluster, repository: Path) -> None:
    (repository / "new.py").write_text("print('not committed')")
    rsync = ("--sync-mode=rsync", f"--sync-source={repository}")
    submit(local, "copied", *rsync, "python code/trainer/new.py")

    assert local.arena("logs", "copied").stdout.splitlines()[-1] == "not committed"


def test_a_private_repository_is_fetched_with_a_secret_that_training_does_not_see(
    local: LocalCluster, tmp_path: Path
) -> None:
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "private"},
        "stringData": {"username": "me", "password": PASSWORD},
    }  # fmt: skip
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:
        client.create(SECRETS.read_as(dict), secret, namespace="default")
    show = "cat code/project/file; echo; env"
    with served(Repository(tmp_path / "project"), tmp_path / "served") as address:
        git = ("--sync-mode=git", f"--sync-source={address}", "--sync-secret=private")
        # On the host's network the pod reaches the test's own server.
        submit(local, "private", *git, "--hostNetwork", show)

    log = local.arena("logs", "private").stdout
    assert log.startswith("two")
    assert PASSWORD not in log


def test_keys_of_secrets_and_config_maps_become_environment_variables(local: LocalCluster) -> None:
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:
        for kind, data in ((SECRETS, "stringData"), (CONFIG_MAPS, "data")):
            body = {"metadata": {"name": "vars"}, data: {f"FROM_{kind.kind.upper()}": "a b"}}
            client.create(kind.read_as(dict), body, namespace="default")
    flags = ("--env-from=secret/vars", "--env-from=configmap/vars")
    submit(local, "vars", *flags, 'echo "$FROM_SECRET, $FROM_CONFIGMAP"')

    assert local.arena("logs", "vars").stdout == "a b, a b\n"


def test_a_waiting_submit_exits_with_10_when_the_job_fails(
    local: LocalCluster, repository: Path
) -> None:
    git = ("--sync-mode=git", f"--sync-source={repository}")
    result = submit(local, "bad", *git, "python code/trainer/train.py 3", check=False)

    assert result.returncode == 10
    assert "the job bad failed" in result.stderr


def test_a_missing_repository_fails_the_job_with_a_reason(
    local: LocalCluster, repository: Path
) -> None:
    git = ("--sync-mode=git", f"--sync-source={repository}", "--sync-branch=nowhere")
    result = submit(local, "lost", *git, "python code/trainer/train.py 0", check=False)

    assert result.returncode == 10
    assert "init-code" in result.stderr
