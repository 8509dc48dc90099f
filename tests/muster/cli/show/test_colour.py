"""Colour on a terminal, plain text in a pipe."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from muster.cli.show.table import shows_colours, table
from tests.muster.cli.show.terminal import Terminal


@pytest.fixture
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


ROWS = [("NAME", "STATUS"), ("Running-man", "Running"), ("b", "PENDING")]


@pytest.mark.usefixtures("colourful")
def test_known_words_are_coloured_on_a_terminal() -> None:
    green, yellow = "\x1b[32mRunning\x1b[0m", "\x1b[33mPENDING\x1b[0m"

    with redirect_stdout(Terminal()):
        text = table(ROWS)

    assert text.splitlines() == [
        "NAME         STATUS",
        f"Running-man  {green}",
        f"b            {yellow}",
    ]


@pytest.mark.usefixtures("colourful")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_color_and_dumb_terminals_get_no_colour(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    with redirect_stdout(Terminal()):
        assert "\x1b" not in table(ROWS)


def test_a_pipe_gets_no_colour() -> None:
    assert not shows_colours(io.StringIO())
