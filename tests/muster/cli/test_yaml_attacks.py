"""Files of YAML that once crashed a command: every command that reads YAML says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = "[" * 50_000
SAYS = "line 1: it is nested deeper than 100 levels"
CLUSTER = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with a kubeconfig, and the attack as a file."""
    (tmp_path / "kubeconfig").write_text(json.dumps(CLUSTER))
    (tmp_path / "attack.yaml").write_text(ATTACK)
    return tmp_path


def run(home: Path, program: str, *words: str, kubeconfig: str = "kubeconfig") -> str:
    """The error of a command that must fail as with any other wrong file."""
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *words],
        cwd=home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(home / kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "arena apply -f attack.yaml",
        "arena create -f attack.yaml",
        "arena submit -f attack.yaml",
        "arena process -f attack.yaml",
        "muster install --values attack.yaml --dry-run",
        "muster scheduler --scheduler-config attack.yaml",
    ],
)
def test_a_file_that_is_nested_too_deeply_is_an_error(home: Path, command: str) -> None:
    err = run(home, *command.split())

    assert "attack.yaml" in err
    assert SAYS in err


@pytest.mark.parametrize("depth", [200, 20_000])
def test_json_that_is_nested_too_deeply_is_the_same_error(home: Path, depth: int) -> None:
    (home / "attack.json").write_text('{"a":' * depth + "1" + "}" * depth)

    err = run(home, "arena", "apply", "-f", "attack.json")
    assert "attack.json: it is nested deeper than 100 levels" in err


def test_a_value_of_set_that_is_nested_too_deeply_is_an_error(home: Path) -> None:
    (home / "job.yaml").write_text("kind: tf\nname: a\ncommand: x\n")
    err = run(home, "arena", "submit", "-f", "job.yaml", "--set", f"env={ATTACK}")

    assert "it is nested deeper than 100 levels" in err


def test_a_kubeconfig_that_is_nested_too_deeply_is_an_error(home: Path) -> None:
    err = run(home, "arena", "list", kubeconfig="attack.yaml")

    assert f"attack.yaml: is not a kubeconfig: {SAYS}" in err


def test_a_chart_that_is_nested_too_deeply_is_an_error(home: Path) -> None:
    chart = home / "charts" / "tfjob" / "values.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text(ATTACK)
    err = run(home, "arena", "submit", "tf", "--name=j", "--image=i", "--dry-run", "x")

    assert f"values.yaml cannot be read: {SAYS}" in err


def test_a_file_without_end_is_not_read_to_its_end(home: Path) -> None:
    (home / "attack.yaml").unlink()
    (home / "attack.yaml").symlink_to("/dev/zero")
    err = run(home, "arena", "apply", "-f", "attack.yaml")

    assert "attack.yaml: it is larger than 65536 kB" in err
