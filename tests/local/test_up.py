"""The settings of a start of the local cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.local.home import Home
from muster.local.settings import Settings


def test_a_relative_data_directory_is_hidden_from_pods_and_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(Home(tmp_path / "home"), data_dir=Path("state"))

    assert settings.data == tmp_path / "state"
    assert str(tmp_path / "state") in settings.for_node().hidden
