"""Bounds of a daemon's log: lines that repeat, and the size of the file."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

from kubekit.telemetry.logging_setup import RepeatedRecords
from kubekit.telemetry.unexpected_errors import RepeatedLine

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DAEMON = """
import logging, os, sys
from pathlib import Path
from kubekit.telemetry import logging_setup
file = logging_setup.BoundedFile.behind_stderr(Path(sys.argv[1]))
if file is not None:
    file = logging_setup.BoundedFile(Path(sys.argv[1]), limit=10_000)
logging_setup.setup(file=file)
for number in range(1000):
    logging.getLogger("test").warning("line %d %s", number, "x" * 50)
print("the end of standard output", flush=True)
"""


def run_daemon(log: Path, stream: Path) -> list[str]:
    with stream.open("ab") as file:
        subprocess.run(
            [sys.executable, "-c", DAEMON, str(log)], stdout=file, stderr=file, check=True
        )
    return stream.read_text().splitlines()


def test_the_log_file_is_bounded_and_one_older_file_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    lines = run_daemon(log, log)
    older = (tmp_path / "daemon.log.1").read_text().splitlines()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1"]
    assert all(path.stat().st_size < 10_200 for path in tmp_path.iterdir())
    numbers = [int(line.split()[5]) for line in (*older, *lines) if "line" in line]
    assert numbers == list(range(numbers[0], 1000)), "no line between the files is lost"
    assert lines[-1] == "the end of standard output"


def test_a_stream_that_is_another_file_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.touch()

    assert len(run_daemon(log, tmp_path / "mine")) == 1001
    assert log.read_text() == ""


def test_a_log_that_cannot_be_renamed_is_bounded_and_costs_no_descriptors(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    (tmp_path / "daemon.log.1").mkdir()  # a file cannot replace it
    ending = 'print(len(os.listdir("/proc/self/fd")), file=sys.stderr)'
    with log.open("ab") as file:
        program = [sys.executable, "-c", DAEMON + ending, str(log)]
        subprocess.run(program, stdout=file, stderr=file, check=True)

    assert log.stat().st_size < 20_300
    assert int(log.read_text().splitlines()[-1]) < 10


def test_a_repeated_line_is_written_once_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    line = RepeatedLine(logging.getLogger("test"), logging.WARNING, 10.0, lambda: now)
    for number in range(5):
        line.log("malformed %d", number)
    now = 10.0
    line.log("malformed %d", 5)
    now = 20.0
    line.log("malformed %d", 6)

    assert caplog.messages == [
        "malformed 0",
        "malformed 5 (4 more like it since the last such line)",
        "malformed 6",
    ]


def test_a_warning_of_another_library_is_written_once_per_interval() -> None:
    now = 100.0
    bound = RepeatedRecords(every=10.0, clock=lambda: now)

    def passes(message: str, level: int = logging.WARNING) -> bool:
        return bool(bound.filter(logging.LogRecord("asyncio", level, "", 0, message, (), None)))

    first = [passes("SSL connection is closed") for _ in range(3)]
    other = passes("socket.send() raised exception.")
    errors = [passes("a bug", logging.ERROR) for _ in range(2)]
    now = 110.0
    later = passes("SSL connection is closed")

    assert (first, other, errors, later) == ([True, False, False], True, [True, True], True)
