"""The data directory and `$MUSTER_HOME` are closed to others, or refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kubekit.errors import UsageError
from localkube.data_directory import claimed
from muster.client.home import Home
from tests.ordinary_user import NOBODY

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file to another user"
)
ATTEMPT = "pods/1-2-3/containers/main/0"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that an earlier daemon left."""
    path = tmp_path / "data"
    for folder in ("access", "backups", "pods/1-2-3/volumes/v", f"{ATTEMPT}/root"):
        (path / folder).mkdir(parents=True)
    for file in ("objects.db", "access/token", f"{ATTEMPT}/spec", f"{ATTEMPT}/termination-log"):
        (path / file).touch()
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def claim(data: Path) -> None:
    with claimed(data, data.parent):
        pass


def test_open_folders_in_the_data_directory_are_closed_but_not_those_of_pods(data: Path) -> None:
    folders = ("", "access", "backups", "pods", "pods/1-2-3", ATTEMPT)
    of_pods = ("pods/1-2-3/volumes/v", f"{ATTEMPT}/root")
    for folder in (*folders, *of_pods):
        (data / folder).chmod(0o777)

    claim(data)

    assert [mode(data / folder) for folder in folders] == [0o700] * len(folders)
    assert [mode(data / folder) for folder in of_pods] == [0o777] * len(of_pods)


@needs_root
@pytest.mark.parametrize("name", ["access/token", "access", "pods/1-2-3", f"{ATTEMPT}/spec"])
def test_a_file_of_another_user_below_is_refused(data: Path, name: str) -> None:
    os.chown(data / name, NOBODY, NOBODY)

    with pytest.raises(UsageError, match=f"{name} in the data directory belongs to another user"):
        claim(data)
    assert not (data / "cluster.lock").exists()


@needs_root
def test_a_pod_that_changes_the_owner_of_its_files_does_not_stop_the_next_daemon(
    data: Path,
) -> None:
    for name in ("pods/1-2-3/volumes/v", f"{ATTEMPT}/root", f"{ATTEMPT}/termination-log"):
        os.chown(data / name, NOBODY, NOBODY)

    claim(data)


@pytest.mark.parametrize("name", ["access", "access/token", "objects.db", "backups"])
def test_a_link_to_other_state_is_refused(data: Path, name: str) -> None:
    (data / name).rename(data.parent / "elsewhere")
    (data / name).symlink_to(data.parent / "elsewhere")

    with pytest.raises(UsageError, match=f"{name} in the data directory is a symbolic link"):
        claim(data)


@pytest.mark.parametrize("names", [(), ("images",), ("daemon.lock", "notes")])
def test_an_open_home_of_ours_is_closed(tmp_path: Path, names: tuple[str, ...]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in names:
        (home / name).touch()
    home.chmod(0o777)

    Home(home).make()

    assert mode(home) == 0o700


def test_an_open_home_with_only_other_files_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").touch()
    home.chmod(0o777)

    with pytest.raises(UsageError, match="other users may enter MUSTER_HOME") as caught:
        Home(home).make()
    assert f"`chmod 700 {home}`" in caught.value.hint
    assert mode(home) == 0o777


@needs_root
def test_a_kubeconfig_of_another_user_is_not_used(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.kubeconfig.touch(0o600)
    assert home.trusted_kubeconfig() == home.kubeconfig
    os.chown(home.kubeconfig, NOBODY, NOBODY)

    with pytest.raises(UsageError, match="another user may have written it"):
        home.trusted_kubeconfig()
    os.chown(tmp_path, NOBODY, NOBODY)  # root looks at a cluster of this user
    assert home.trusted_kubeconfig() == home.kubeconfig
