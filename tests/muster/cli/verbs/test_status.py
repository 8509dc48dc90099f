"""`arena status` of a local cluster that is not up says why, and what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.cli import main
from muster.client import daemon_start
from muster.client.home import Home
from muster.client.target import Target
from tests.controlplane.process_flags import kubeconfig


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return Home.of_user()


FLAGS = "--nodes=2 '--data-dir=/big disk'"
AGAIN = f"`arena up --detach {FLAGS}` finds them again, `arena down` stops them"


def killed(home: Home) -> None:
    """Leave the files of a daemon that was killed."""
    home.make()
    home.lock.write_text("123456789")
    home.record.write_text(json.dumps({"pid": 123456789, "flags": FLAGS}))


def test_status_before_the_first_start(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run("arena", ["status"]) == 5

    out, err = capsys.readouterr()
    assert out == "local:  down; `arena up --detach` starts it\n"
    assert err == "error: no cluster is configured, and the local cluster is not running\n"
    assert not home.root.exists()


@pytest.mark.parametrize("custom", [False, True])
def test_status_after_down_says_that_jobs_are_kept(
    home: Home, tmp_path: Path, custom: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "elsewhere" if custom else home.data
    with home.held():
        (data / "pods" / "uid").mkdir(parents=True)
        home.write_status(data=str(data))

    main.run("arena", ["status"])
    flag = f" --data-dir {data}" if custom else ""
    text = f"stopped; `arena up --detach{flag}` starts it again, with its jobs"
    assert capsys.readouterr().out == f"local:  {text}\n"
    main.run("arena", ["status", "-o", "json"])
    assert json.loads(capsys.readouterr().out)["local"] == "down"


def test_status_after_a_kill_warns_of_running_pods(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(home)

    main.run("arena", ["status"])

    out, err = capsys.readouterr()
    assert out == f"local:  killed; pods may still run: {AGAIN}\n"
    assert err == "error: the daemon of the local cluster was killed\n"


@pytest.mark.parametrize(
    "words", [["list"], ["get", "j"], ["logs", "j"], ["explain", "j"], ["doctor"]]
)
@pytest.mark.parametrize("choice", ["", "local", "KUBECONFIG"])
def test_every_command_says_that_the_daemon_was_killed_and_what_to_do(
    home: Home,
    words: list[str],
    choice: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed(home)
    if choice == "KUBECONFIG":
        home.kubeconfig.write_text(json.dumps(kubeconfig("https://127.0.0.1:1", b"")))
        monkeypatch.setenv("KUBECONFIG", str(home.kubeconfig))
    elif choice:
        home.choose(choice)

    assert main.run("arena", words) == 5

    text = f"error: the daemon of the local cluster was killed\nPods may still run: {AGAIN}.\n"
    assert capsys.readouterr().err == text


def test_a_submit_after_a_kill_starts_the_cluster_again_as_it_was(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(home)
    monkeypatch.delenv("CI", raising=False)
    given: list[Sequence[str]] = []
    monkeypatch.setattr(daemon_start, "start", lambda flags, notify: given.append(flags))

    main.run("arena", ["submit", "tf", "--name=j", "true"])

    assert given == [["--nodes=2", "--data-dir=/big disk"]]
    assert (
        "the daemon of the local cluster was killed: starting it again" in capsys.readouterr().err
    )


def test_status_while_the_cluster_starts(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with home.held():
        main.run("arena", ["status"])

    assert capsys.readouterr().out.startswith("local:  starting or stopping (pid ")


def test_the_rows_of_the_daemon_are_aligned_with_the_others(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Target, "find", lambda _: None)
    with home.held():
        home.write_status(data=str(home.data), runtime="namespaces")
        main.run("arena", ["status"])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["local:", "up"]
    assert lines[-1].split() == ["local", "runtime:", "namespaces"]
    assert len({line.index(line.split()[-1]) for line in lines}) == 1
