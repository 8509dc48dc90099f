"""Why a local cluster did not start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kubekit.errors import MusterError
from muster.client.daemon_start import start
from muster.client.home import Home


def failed_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str) -> MusterError:
    """The error of a start whose daemon ends with this log."""
    daemon = tmp_path / "daemon"
    daemon.write_text(f"#!/bin/sh\nprintf '{log}'\nexit 1\n")
    daemon.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(daemon))
    with pytest.raises(MusterError) as caught:
        start([], lambda _: None, home=Home(tmp_path / "home"))
    return caught.value


def test_a_last_line_that_was_cut_is_of_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failed_start(tmp_path, monkeypatch, "one\\nerror: the disk of /som")

    assert str(error) == f"the local cluster did not start: the disk of {tmp_path}/home is full"


def test_a_whole_last_line_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failed_start(tmp_path, monkeypatch, "one\\nerror: no such port\\n")

    assert str(error) == "the local cluster did not start"
    assert error.hint.endswith("error: no such port")
