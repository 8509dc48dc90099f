"""The settings of a start of the local cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localkube.node.runtime.rootfs import PRIVATE_DIRECTORIES
from muster.client.home import Home
from muster.contract import local_cluster_names
from muster.local_daemon import Settings


def test_a_relative_data_directory_is_hidden_from_pods_and_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(Home(tmp_path / "home"), data_dir=Path("state"))

    assert settings.data == tmp_path / "state"
    assert str(tmp_path / "state") in settings.options().all_hidden


def test_the_client_and_the_node_agree_on_private_directories() -> None:
    assert local_cluster_names.PRIVATE_DIRECTORIES == PRIVATE_DIRECTORIES


@pytest.mark.parametrize("value", ["state", "./state/", "", None])
def test_the_home_of_the_cluster_is_hidden_however_it_is_named(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MUSTER_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("MUSTER_HOME", value)

    settings = Settings(Home.of_user(), data_dir=tmp_path / "data")
    hidden = settings.options().all_hidden

    assert str(Home.of_user().root) in hidden
    assert all(os.path.isabs(path) for path in hidden)
    assert {str(tmp_path / "data"), os.path.expanduser("~/.kube")} <= set(hidden)
