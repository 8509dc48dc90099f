"""The cluster's state belongs to one daemon and one user."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import container, pod
from tests.e2e.local_cluster import LocalCluster, remove
from tests.localkube.node import leftovers
from tests.ordinary_user import NOBODY
from tests.waiting import until

pytestmark = pytest.mark.slow

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
SCRIPT = (
    "touch /tmp/file; mkdir /tmp/folder; "
    "stat -c '%a %n' /tmp/file /tmp/folder / /etc/hosts /etc/resolv.conf "
    "/dev/termination-log /host/made; "
    "stat -Lc '%a' /var/run/secrets/kubernetes.io/serviceaccount/token; sleep 300"
)
MODES = (
    "644 /tmp/file\n755 /tmp/folder\n755 /\n644 /etc/hosts\n644 /etc/resolv.conf\n"
    "666 /dev/termination-log\n755 /host/made\n644\n"
)


@dataclass
class Shared:
    """A running cluster whose data directory was open to all users when `up` took it."""

    cluster: LocalCluster
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "data").mkdir()
    (folder / "data").chmod(0o755)
    cluster = LocalCluster(folder / "home")
    before = os.umask(0)  # the worst umask that a user may have
    try:
        cluster.up(f"--data-dir={folder}/data")
    finally:
        os.umask(before)
    try:
        cluster.apply(_pod(folder))
        lines = MODES.count("\n")
        until(lambda: _log(cluster).count("\n") == lines, what="the modes in the pod")
        yield Shared(cluster, folder)
    finally:
        cluster.down()
        remove(folder)


def _log(cluster: LocalCluster) -> str:
    return cluster.arena("logs", "p", check=False).stdout


def _pod(folder: Path) -> dict[str, object]:
    volume = {"hostPath": {"path": f"{folder}/host/made", "type": "DirectoryOrCreate"}}
    mounts = [{"name": "v", "mountPath": "/host/made"}]
    main = container(image="python:3.12", command=["sh", "-c", SCRIPT], volumeMounts=mounts)
    return pod("p", main, volumes=[{"name": "v", **volume}])


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )


CONNECT = """
import os, socket, sys
os.setuid(65534)
client = socket.socket(socket.AF_UNIX)
try:
    client.connect("sock")
except PermissionError as error:
    sys.exit(error.strerror)
"""


@only_root
def test_another_user_reads_nothing_and_pods_keep_the_usual_modes(shared: Shared) -> None:
    shown = as_nobody("find", str(shared.folder), "-readable", "-printf", "%P ").stdout

    assert _log(shared.cluster) == MODES
    assert shown.split() == ["host", "host/made"]
    assert stat.S_IMODE(shared.data.stat().st_mode) == 0o700
    assert "closed" in shared.cluster.log_tail()


@only_root
def test_another_user_who_is_let_in_cannot_use_a_shims_socket(shared: Shared) -> None:
    (sock,) = shared.data.glob("pods/*/containers/main/*/sock")
    ours = [shared.data / "objects.db", shared.cluster.home / "daemon.log", *sock.parent.iterdir()]
    # In the pod, for its programs of any user.
    shown = {"root", "root.changes", "root.over", "termination-log"}

    result = subprocess.run(
        [sys.executable, "-c", CONNECT], cwd=sock.parent, stderr=subprocess.PIPE, check=False
    )

    assert result.stderr == b"Permission denied\n"
    assert not [f for f in ours if f.stat().st_mode & 0o077 and f.name not in shown]
    with socket.socket(socket.AF_UNIX) as client:  # we may
        client.connect(f"/proc/self/fd/{os.open(sock.parent, os.O_PATH)}/sock")


def test_a_second_home_on_the_same_data_directory_is_refused_and_changes_nothing(
    shared: Shared,
) -> None:
    other = LocalCluster(shared.folder / "other")
    before = leftovers.of(shared.data)  # the processes, links and mounts of the cluster

    for words in (("up",), ("up", "--detach")):
        result = other.arena(*words, f"--data-dir={shared.data}", check=False)

        assert result.returncode in (1, 2)
        assert "another local cluster (pid " in result.stderr
        assert f"`MUSTER_HOME={shared.cluster.home} arena down` stops it" in result.stderr
    assert "no local cluster was up\n" in other.arena("down").stderr
    assert before.links or os.geteuid() != 0
    assert leftovers.of(shared.data) == before


def test_an_open_data_directory_with_other_files_is_refused(shared: Shared) -> None:
    folder = shared.folder / "mixed"
    folder.mkdir()
    (folder / "thesis.txt").touch()
    folder.chmod(0o755)

    result = LocalCluster(shared.folder / "other").arena("up", f"--data-dir={folder}", check=False)

    assert result.returncode == 2
    assert f"other users may enter the data directory {folder}" in result.stderr
    assert f"`chmod 700 {folder}` closes it" in result.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@only_root
def test_a_data_directory_that_another_user_prepared_is_refused(shared: Shared) -> None:
    folder = shared.folder / "prepared"
    (folder / "access").mkdir(parents=True)
    (folder / "access" / "token").write_text("known to the other user")
    (folder / "objects.db").touch()
    folder.chmod(0o1777)
    os.chown(folder / "access", NOBODY, NOBODY)

    result = LocalCluster(shared.folder / "other").arena("up", f"--data-dir={folder}", check=False)

    assert result.returncode == 2
    assert f"{folder}/access in the data directory belongs to another user" in result.stderr
    assert not (folder / "cluster.lock").exists()


@only_root
def test_a_token_that_another_user_planted_in_an_open_folder_is_refused(shared: Shared) -> None:
    data = shared.folder / "open"
    (data / "access").mkdir(parents=True)
    (data / "objects.db").touch()
    data.chmod(0o777)
    (data / "access").chmod(0o777)
    planted = as_nobody("sh", "-c", f"printf evil > {data}/access/token")
    assert planted.returncode == 0

    result = LocalCluster(shared.folder / "other").arena("up", f"--data-dir={data}", check=False)

    assert result.returncode == 2
    assert f"{data}/access/token in the data directory belongs to another user" in result.stderr
    assert f"`rm -r {data}/access/token`" in result.stderr


@only_root
def test_a_home_in_which_another_user_planted_keys_is_refused(shared: Shared) -> None:
    home = shared.folder / "sticky"
    home.mkdir()
    home.chmod(0o1777)
    planted = as_nobody("sh", "-c", f"head -c 64 /dev/zero > {home}/dashboard.keys")
    assert planted.returncode == 0

    for words in (("up",), ("up", "--detach")):
        result = LocalCluster(home).arena(*words, check=False)

        assert result.returncode == 2
        assert f"{home}/dashboard.keys in MUSTER_HOME belongs to another user" in result.stderr
    assert os.listdir(home) == ["dashboard.keys"]
