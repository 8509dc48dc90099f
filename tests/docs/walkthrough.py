"""Following a page: its commands run as they are written, and print what the page shows.

Numbers that differ from run to run (ages, addresses, losses, versions) are not compared. A command
that only reads is repeated until it prints what the page shows, as a reader would.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.docs.markdown import Shown
from tests.waiting import until

READS = re.compile(r"(arena (get|list|explain|top|logs)|muster doctor|kubectl (get|auth))\b")
VARYING = (
    r"\d+\\\.\d+\\\.\d+\\\.\d+",  # addresses
    r"\d+\\\.\d+(\\\.\d+)?",  # losses, versions, percentages
    r"\b(\d+[hm])*\d+s\b",  # ages
)


class Reader:
    """A person at a shell."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder, self.env = folder, dict(env)

    def follow(self, shown: Shown) -> None:
        """Run a command of a page, and compare its output."""
        if not READS.match(shown.line):
            text = self.run(shown.line)
            assert missing(shown.output, text) == [], f"$ {shown.line}\n{text}"
            return
        last = ""

        def as_shown() -> bool:
            nonlocal last
            last = self.run(shown.line)
            return missing(shown.output, last) == []

        try:
            until(as_shown, timeout=60, every=0.5, what=shown.line)
        except AssertionError as error:
            raise AssertionError(f"$ {shown.line}\n{last}") from error

    def run(self, line: str) -> str:
        """The output of a command, which must succeed; `muster doctor` may find something."""
        result = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert result.returncode == 0 or "muster doctor" in line, f"$ {line}\n{result.stdout}"
        return result.stdout


def missing(expected: list[str], text: str) -> list[str]:
    """The expected lines that do not follow each other in the text."""
    lines = iter(text.splitlines())
    return [each for each in expected if not any(re.search(_pattern(each), line) for line in lines)]


def _pattern(line: str) -> str:
    pattern = re.escape(line.strip())
    for varying in VARYING:
        pattern = re.sub(varying, r"\\S+", pattern)
    return re.sub(r"(\\ )+", r"\\s+", pattern)
