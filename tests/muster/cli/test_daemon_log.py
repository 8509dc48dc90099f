"""Under `--log-format=json` every line of a daemon is JSON, from the first to its last error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
}


def lines_of(folder: Path, *words: str, program: tuple[str, ...] = ("-m", "muster")) -> list[str]:
    """What a daemon writes to its log before it ends."""
    config = folder / "kubeconfig"
    config.write_text(json.dumps(CONFIG))
    command = [sys.executable, *program, *words, "--kubeconfig", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    return ended.stderr.splitlines()


def test_the_first_line_and_the_error_at_the_end_are_json(tmp_path: Path) -> None:
    first, *_, last = map(json.loads, lines_of(tmp_path, "scheduler", "--log-format=json"))

    assert first["msg"].startswith("scheduler: cluster: c (from --kubeconfig)")
    assert (last["level"], "cannot reach" in last["msg"]) == ("error", True)


BROKEN = """
import sys
from muster.cli import main
from muster.scheduler import daemon

async def broken(*_):
    raise KeyError("nobody expected it")

daemon.run = broken
sys.exit(main.run("muster", sys.argv[1:]))
"""


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_an_error_that_nobody_expected_ends_a_daemon_with_its_traceback(
    tmp_path: Path, log_format: str
) -> None:
    words = ("scheduler", "--shadow", f"--log-format={log_format}")

    lines = lines_of(tmp_path, *words, program=("-c", BROKEN))

    text = "\n".join(lines) if log_format == "human" else json.dumps(json.loads(lines[-1]))
    assert "please report this: KeyError: 'nobody expected it'" in text
    assert "Traceback (most recent call last)" in text
    assert "in broken" in text


def test_a_wrong_combination_of_flags_is_said_in_json(tmp_path: Path) -> None:
    words = ("dashboard", "--host=a", "--log-format=json")

    (row,) = map(json.loads, lines_of(tmp_path, *words))

    assert row["level"] == "error"
    assert "--proxy-host" in row["hint"]


def test_the_log_for_people_is_as_it_was(tmp_path: Path) -> None:
    first, *_ = lines_of(tmp_path, "scheduler")

    assert first.startswith("scheduler: cluster: c (from --kubeconfig)")
