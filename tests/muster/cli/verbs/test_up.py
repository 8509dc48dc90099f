"""`arena up` and `down` that fail: one sentence, an exit code, nothing left behind."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from muster import local_daemon
from muster.cli import main
from muster.client.home import Home
from tests.e2e.local_cluster import ARENA
from tests.localkube.node import leftovers
from tests.small_disk import fill, small_disk


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = main.run("arena", list(argv))
    return code, capsys.readouterr().err


def test_flags_for_a_cluster_that_is_up_already_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Home.of_user().held():
        assert run(capsys, "up", "--detach")[0] == 0

        code, err = run(capsys, "up", "--detach", "--nodes", "3")

    assert code == 2
    assert "--nodes=3 has no effect" in err


def test_an_interrupted_down_says_that_the_cluster_is_still_stopping(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> bool:
        raise KeyboardInterrupt

    signals: list[int] = []
    monkeypatch.setattr("os.kill", lambda _, number: signals.append(number))
    monkeypatch.setattr(local_daemon, "_is_alive", interrupt)
    with Home.of_user().held():
        code, err = run(capsys, "down")

    assert (code, signals) == (130, [signal.SIGTERM])
    assert err == (
        "interrupted: the local cluster is still stopping; "
        "`arena down` waits for it again, `arena down --now` kills its pods\n"
    )


def test_an_interrupted_up_in_the_foreground_says_that_nothing_was_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kubekit.telemetry.logging_setup.setup", interrupt)

    assert run(capsys, "up") == (130, "interrupted: the local cluster was not started\n")


@pytest.mark.parametrize("memory", ["lots", "8GB", "-5", "0", "1e400"])
def test_memory_that_no_node_could_have_is_refused(
    memory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = run(capsys, "up", "--detach", f"--memory-per-node={memory}")

    assert code == 2
    assert f"--memory-per-node '{memory}' is invalid" in err
    assert "Write 8Gi" in err


@pytest.mark.parametrize("home", ["/proc/nope", "/dev/null"])
def test_a_home_that_cannot_be_written_is_named(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_HOME", home)

    code, err = run(capsys, "up", "--detach")

    assert code == 2
    assert home in err
    assert "bug in Muster" not in err


READ_ONLY = """
mount -t tmpfs tmpfs "$1" && mkdir "$1/home" "$1/data" && echo 4242 > "$1/home/daemon.lock"
mount -o remount,bind,ro "$1"
MUSTER_HOME="$1/home" "$2" up; echo $?
MUSTER_HOME="$1/home" "$2" status 2>&1 | head -1
MUSTER_HOME="$1/missing" "$2" down; echo $?
MUSTER_HOME="$3" "$2" up --data-dir "$1/data"; echo $?
"""


def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    mounted, home = tmp_path / "mounted", tmp_path / "home"
    mounted.mkdir()
    script = ["sh", "-c", READ_ONLY, "sh", str(mounted), str(ARENA), str(home)]

    result = subprocess.run(
        ["unshare", "--map-root-user", "--mount", *script],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.stderr.splitlines() == [
        f"error: the local cluster cannot keep its state in {mounted}/home: Read-only file system",
        "Set MUSTER_HOME to a directory that you may write to.",
        "no local cluster was up",
        f"error: the local cluster cannot keep its data in {mounted}/data: Read-only file system",
        "`arena up --data-dir DIRECTORY` takes a directory that you may write to.",
    ]
    codes = [line for line in result.stdout.splitlines() if line.isdigit()]
    assert codes == ["2", "0", "2"]
    assert "local:  killed; pods may still run" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("before", [[], ["--debug"]])
def test_a_port_that_is_taken_leaves_no_network_behind(before: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = subprocess.run(
            [ARENA, *before, "up", "--detach", "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )

    assert result.returncode == 2
    assert f"cannot listen on port {port}" in result.stderr
    assert "bug in Muster" not in result.stderr
    assert not leftovers.of(Home.of_user().data)


@pytest.mark.slow
def test_two_starts_at_once_report_the_same_cluster() -> None:
    words = [str(ARENA), "up", "--detach"]
    try:
        both = [
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        outputs = [process.communicate(timeout=60)[1] for process in both]
        pid = Home.of_user().running()
    finally:
        subprocess.run([ARENA, "down"], capture_output=True, check=True)

    assert [process.returncode for process in both] == [0, 0], outputs
    assert pid
    assert all(f"(pid {pid})" in text for text in outputs), outputs
    assert sum("already up" in text for text in outputs) == 1, outputs


@pytest.mark.slow
def test_a_full_disk_is_named_although_the_log_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        monkeypatch.setenv("MUSTER_HOME", str(disk / "home"))
        Home.of_user().make()
        fill(disk / "file")

        code, err = run(capsys, "up", "--detach")

        assert code == 1
        assert f"did not start: the disk of {disk / 'home'} is full\n" in err


def test_down_without_a_cluster_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "down") == (0, "no local cluster was up\n")
