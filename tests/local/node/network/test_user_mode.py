"""slirp4netns and pasta, and the messages when they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.local.node.network.outbound_rootless import UserModeNetwork


def install(folder: Path, name: str, *said: str) -> None:
    """A program of that name which says this and fails."""
    folder.mkdir(exist_ok=True)
    lines = "".join(f"echo '{line}' >&2\n" for line in said)
    (folder / name).write_text(f"#!/bin/sh\n{lines}exit 1\n")
    (folder / name).chmod(0o755)


def why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    way = UserModeNetwork(tmp_path)
    way.open(os.getpid())
    assert way.method == ""
    return way.unavailable_reason


def test_a_device_that_may_not_be_opened_is_named_with_the_programs_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'open("/dev/net/tun"): Permission denied'
    install(tmp_path / "bin", "slirp4netns", said, "child failed(1)")

    assert why_not(tmp_path, monkeypatch) == (
        f"this user may not open /dev/net/tun (slirp4netns: {said})"
    )


def test_a_device_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'open("/dev/net/tun"): No such file or directory'
    install(tmp_path / "bin", "slirp4netns", said, "child failed(1)")

    assert why_not(tmp_path, monkeypatch) == (
        f"this machine has no /dev/net/tun (slirp4netns: {said})"
    )


def test_other_failures_have_the_message_of_each_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "slirp4netns", "one thing", "another thing", "child failed(1)")
    install(tmp_path / "bin", "pasta")

    assert why_not(tmp_path, monkeypatch) == (
        "slirp4netns: one thing, another thing; pasta: it exited without a message"
    )


def test_a_missing_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_not(tmp_path, monkeypatch) == "neither slirp4netns nor pasta is installed"
