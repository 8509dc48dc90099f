"""When systemd is asked for a scope, and how its answer is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localkube.node.runtime import cgroup_search


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with systemd; programs are in `bin`."""
    for name in ("systemd", "linger", "bin", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "bus").touch()
    monkeypatch.setattr(cgroup_search, "_SYSTEMD", tmp_path / "systemd")
    monkeypatch.setattr(cgroup_search, "_LINGER", tmp_path / "linger")
    monkeypatch.setattr(cgroup_search, "_PATIENCE", 0.0)
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    monkeypatch.setattr(cgroup_search, "_user_name", lambda _: "ann")
    monkeypatch.setattr(cgroup_search, "_own_group", lambda: "/user.slice/session-2.scope")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("SYSTEMD_EXEC_PID", raising=False)
    return tmp_path


def busctl(machine: Path, script: str) -> None:
    program = machine / "bin" / "busctl"
    program.write_text(f'#!/bin/sh\necho "$@" > {machine}/call\n{script}\n')
    program.chmod(0o755)


def test_a_login_session_without_lingering_does_not_move(machine: Path) -> None:
    busctl(machine, "exit 0")

    assert "`sudo loginctl enable-linger ann`" in cgroup_search.enter_scope("muster-x")
    assert not (machine / "call").exists()


def test_a_user_who_lingers_gets_a_delegated_scope(machine: Path) -> None:
    busctl(machine, "exit 0")
    (machine / "linger" / "ann").touch()

    reason = cgroup_search.enter_scope("muster-x")

    assert reason == "systemd did not move the cluster to its own control group"
    call = (machine / "call").read_text()
    assert call.startswith("--user call org.freedesktop.systemd1 ")
    unit = f"muster-x-{os.getpid()}.scope"
    assert f"{unit} fail 4 PIDs au 1 {os.getpid()} Delegate b true" in call


def test_a_graphical_session_needs_no_lingering(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busctl(machine, "echo 'Call failed: Access denied' >&2; exit 1")
    own = "/user.slice/user-65534.slice/user@65534.service/app.slice/vte.scope"
    monkeypatch.setattr(cgroup_search, "_own_group", lambda: own)

    reason = cgroup_search.enter_scope("muster-x")

    assert reason == "systemd delegates no control group: Call failed: Access denied"


def test_the_main_process_of_a_service_stays_where_systemd_started_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busctl(machine, "exit 0")
    (machine / "linger" / "ann").touch()
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))

    assert cgroup_search.enter_scope("muster-x") == "this service has no Delegate=yes"
    assert not (machine / "call").exists()


def test_a_machine_without_systemd_delegates_nothing(machine: Path) -> None:
    (machine / "systemd").rmdir()

    assert cgroup_search.enter_scope("muster-x") == (
        "no control group is delegated to this user (see Limits in docs/localkube/node.md)"
    )
