"""A user's own script on the local cluster: where it runs, and where its files are afterwards.

`tests/localkube/node/test_rootless.py` runs this file again as an ordinary user.
"""

from __future__ import annotations

import json
import os
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.objects.conditions import FILES_DISCARDED
from kubekit.objects.meta import find_condition
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow

TRAIN = """\
import json, os, sys
from pathlib import Path

import only_here

Path("ckpt.txt").write_text(sys.argv[1])
Path.home().joinpath(f"{sys.argv[2]}.txt").write_text("done")
Path.home().joinpath(".cache/set").mkdir(parents=True, exist_ok=True)
Path.home().joinpath(".cache/set/data").write_text("downloaded")
print(json.dumps({"cwd": os.getcwd(), "home": os.environ["HOME"], "prefix": sys.prefix}))
"""
SECRETS = "find -L . -name token -o -name kubeconfig -o -name daemon.json; ls .kube .muster"


@pytest.fixture(scope="module")
def me(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory with the credentials of other clusters."""
    home = tmp_path_factory.mktemp("me")
    (home / ".kube").mkdir()
    (home / ".kube" / "token").write_text("secret")
    return home


@pytest.fixture(scope="module")
def local(me: Path) -> Iterator[LocalCluster]:
    """A cluster whose state is in the home directory, started elsewhere without an environment."""
    cluster = LocalCluster(me / ".muster")
    cluster.env["HOME"] = str(me)
    cluster.arena("up", "--detach", cwd=Path("/"))
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment below /tmp with a package that no other one has."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "only_here.py").write_text("")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def submit(local: LocalCluster, cwd: Path, name: str, *words: str) -> str:
    """Submit a job and wait for its end; returns what stderr says."""
    return local.arena("submit", "tf", f"--name={name}", "--wait", *words, cwd=cwd).stderr


def test_a_script_runs_in_its_directory_with_the_active_environment_and_its_files_stay(
    local: LocalCluster, me: Path, project: Path, environment: Path
) -> None:
    local.env["VIRTUAL_ENV"] = str(environment)
    try:
        errors = submit(local, project, "mine", "python", "train.py", "0.1", "mine")
    finally:
        del local.env["VIRTUAL_ENV"]

    shown = json.loads(local.arena("logs", "mine").stdout)
    assert shown == {"cwd": str(project), "home": str(me), "prefix": str(environment)}
    assert (project / "ckpt.txt").read_text() == "0.1"
    assert (me / "mine.txt").read_text() == "done"
    assert (me / ".cache" / "set" / "data").read_text() == "downloaded"
    assert "discarded" not in errors


def test_another_interpreter_and_directory_are_used_by_every_replica(
    local: LocalCluster, me: Path, project: Path, environment: Path
) -> None:
    script = 'python "my project/train.py" 0.2 $HOSTNAME'
    flags = ("--workers=2", f"--working-dir={project.parent}", f"--python={environment}")

    local.arena("submit", "jax", "--name=two", *flags, "--wait", script, cwd=Path("/"))

    assert (project.parent / "ckpt.txt").read_text() == "0.2"
    assert (me / "two-worker-0.txt").exists()
    assert (me / "two-worker-1.txt").exists()


def test_state_and_credentials_are_hidden_from_a_job_in_the_directory_above_them(
    local: LocalCluster, me: Path, tmp_path: Path
) -> None:
    """Nor does a mount point that the home lacks make the home private."""
    (tmp_path / "set").write_text("data")
    volume = f"--data-dir={tmp_path}:{me}/deep/down"

    submit(local, me, "hidden", volume, f"{SECRETS}; cat deep/down/set; touch real")
    submit(local, me.parent, "above", f"cd {me.name}; {SECRETS}; echo data")

    for name in ("hidden", "above"):
        assert local.arena("logs", name).stdout.split() == [".kube:", ".muster:", "data"]
    assert (me / "real").exists()
    assert (me / "deep" / "down").is_dir()


def test_an_isolated_job_says_which_files_are_discarded_with_it(
    local: LocalCluster, me: Path
) -> None:
    script = (
        "mkdir of-job ~/.cache/b; echo x > of-job/ckpt.txt; echo y > ~/model; "
        "touch .hidden-of-job /tmp/t; pwd; ls -d .kube .muster || true"
    )

    errors = submit(local, me, "alone", "--isolated", script)

    # /root is private and writable, although the home is elsewhere.
    assert local.arena("logs", "alone").stdout.splitlines()[0] == "/root"
    assert "\n.kube" not in local.arena("logs", "alone").stdout
    assert not (me / "model").exists()
    assert not os.path.exists("/root/of-job")  # also if we may not look
    line = next(line for line in errors.splitlines() if "discarded with the pod" in line)
    assert {"/root/of-job/ckpt.txt", f"{me}/model"} == set(
        line.partition("pod: ")[2].partition(";")[0].split(", ")
    )
    assert "discarded with the pod" in local.arena("get", "alone").stdout
    events = local.arena("get", "alone", "-e").stdout
    assert events.count("[FilesDiscarded]") == 1


def test_a_pod_of_another_client_keeps_its_private_home(local: LocalCluster, me: Path) -> None:
    command = ["sh", "-c", "echo private > $HOME/pod.txt; cat $HOME/pod.txt"]
    container = {"name": "c", "image": "i", "command": command}
    local.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "applied"},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
    )
    until(lambda: local.pod("applied").status.phase == "Succeeded", what="the pod's end")

    assert local.arena("logs", "pod/applied").stdout == "private\n"
    assert not (me / "pod.txt").exists()
    # Written once the sandbox is closed, a moment after the end of the containers.
    row = until(
        lambda: find_condition(local.pod("applied").status.conditions, FILES_DISCARDED),
        what="the condition about discarded files",
    )
    assert row.message.endswith(f": {me}/pod.txt")
