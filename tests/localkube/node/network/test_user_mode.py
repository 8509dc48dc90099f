"""slirp4netns and pasta, and the messages when they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localkube.node.network.rootless_network import UserModeNetwork


def install(folder: Path, name: str, *messages: str) -> None:
    """Install a program that prints these lines to stderr and fails."""
    folder.mkdir(exist_ok=True)
    lines = "".join(f"echo '{line}' >&2\n" for line in messages)
    (folder / name).write_text(f"#!/bin/sh\n{lines}exit 1\n")
    (folder / name).chmod(0o755)


def unavailable_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    network = UserModeNetwork(tmp_path)
    network.open(os.getpid())
    assert network.method == ""
    return network.unavailable_reason


def test_a_device_that_may_not_be_opened_is_reported_with_the_programs_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = 'open("/dev/net/tun"): Permission denied'
    install(tmp_path / "bin", "slirp4netns", message, "child failed(1)")

    assert unavailable_reason(tmp_path, monkeypatch) == (
        f"this user may not open /dev/net/tun (slirp4netns: {message})"
    )


def test_a_missing_device_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = 'open("/dev/net/tun"): No such file or directory'
    install(tmp_path / "bin", "slirp4netns", message, "child failed(1)")

    assert unavailable_reason(tmp_path, monkeypatch) == (
        f"this machine has no /dev/net/tun (slirp4netns: {message})"
    )


def test_other_failures_have_the_message_of_each_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "slirp4netns", "one thing", "another thing", "child failed(1)")
    install(tmp_path / "bin", "pasta")

    assert unavailable_reason(tmp_path, monkeypatch) == (
        "slirp4netns: one thing, another thing; pasta: it exited without a message"
    )


def test_a_missing_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unavailable_reason(tmp_path, monkeypatch) == "neither slirp4netns nor pasta is installed"
