"""The directories that the agent hides from pods."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.local.home import Home
from muster.local.node.agent import Settings


@pytest.mark.parametrize("value", ["state", "./state/", "", None])
def test_the_home_of_the_cluster_is_hidden_however_it_is_named(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MUSTER_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("MUSTER_HOME", value)

    hidden = Settings(tmp_path / "data", []).hidden

    assert str(Home.of_user().root) in hidden
    assert all(os.path.isabs(path) for path in hidden)
    assert {str(tmp_path / "data"), os.path.expanduser("~/.kube")} <= set(hidden)
