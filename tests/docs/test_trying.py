"""docs/trying.md, followed from the first command to the last."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import markdown
from tests.docs.walkthrough import Reader, missing
from tests.repository import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A person with an empty home and no browser, in the directory of the repository."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"HOME": str(tmp_path), "PATH": path, "BROWSER": "true", "LANG": "C.UTF-8"}
    yield Reader(ROOT, env)
    subprocess.run(["arena", "down", "--now"], env=env, check=True)


def test_the_page_can_be_followed(reader: Reader) -> None:
    shown = markdown.shown_commands(markdown.DOCS / "trying.md")

    assert len(shown) > 12
    assert sum(bool(each.output) for each in shown) > 5
    for each in shown:
        reader.follow(each)


def test_a_line_that_is_not_printed_is_noticed() -> None:
    text = "Name:      five\nStatus:    PENDING\nLine:      1st of 1 in line, for 12s\n"

    assert missing(["Status: PENDING", "Line:  1st of 1 in line, for 4s"], text) == []
    assert missing(["Line: 2nd of 1 in line, for 4s"], text) == ["Line: 2nd of 1 in line, for 4s"]
    assert missing(["Status: PENDING", "Name: five"], text) == ["Name: five"]
