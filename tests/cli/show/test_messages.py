"""Lines on stderr."""

from __future__ import annotations

import pytest

from muster.cli.show import messages


def test_what_is_said_once_is_not_repeated_in_the_same_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    messages.set_loglevel("info")
    messages.note_once("left out")
    messages.note_once("left out")
    messages.set_loglevel("info")
    messages.note_once("left out")

    assert capsys.readouterr().err == "left out\n" * 2
