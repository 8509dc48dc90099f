"""Files that give rights are read only if they are the user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubekit.errors import ConfigError
from kubekit.private_files import read_private
from tests.ordinary_user import NOBODY


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(0o600)
    return path


def test_a_private_file_is_read(token: Path) -> None:
    assert read_private(token) == b"secret"


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private(tmp_path / "token")


@pytest.mark.parametrize("mode", [0o640, 0o602, 0o644])
def test_a_file_that_others_may_open_is_refused(token: Path, mode: int) -> None:
    token.chmod(mode)
    with pytest.raises(ConfigError, match=r"other users may open it \(mode 06"):
        read_private(token)


def test_a_link_is_refused(token: Path) -> None:
    link = token.with_name("link")
    link.symlink_to(token)
    with pytest.raises(ConfigError, match="it is a symbolic link"):
        read_private(link)


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(ConfigError, match="it is not a regular file"):
        read_private(tmp_path / "token")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(token: Path) -> None:
    os.chown(token, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match=r"belongs to another user \(uid 65534\)"):
        read_private(token)
