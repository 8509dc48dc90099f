"""Tables and times as people and pipes see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.show import output
from muster.cli.show.output import age, duration, json_or_yaml, table, underlined_table

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_columns_are_as_wide_as_their_widest_cell_plus_two() -> None:
    assert table([("NAME", "AGE"), ("a-long-name", "1s")]) == "NAME         AGE\na-long-name  1s"


def test_dashes_stand_under_the_header() -> None:
    assert (
        underlined_table(["NAME", "X"], [("a", "b")], indent="  ")
        == "  NAME  X\n  ----  -\n  a     b"
    )


def test_control_characters_in_cells_are_escaped() -> None:
    assert "\x1b" not in table([("\x1b[31mred", "x")])


def test_a_cell_never_becomes_two_lines() -> None:
    assert table([("a", "two\nlines")]) == "a  two lines"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (86400, "1d")],
)
def test_durations_have_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_years_come_after_365_days() -> None:
    assert duration(400 * 86400) == "1y"


def test_an_unknown_age_is_not_available() -> None:
    assert age(None) == "N/A"
    assert age(NOW - timedelta(minutes=3), NOW) == "3m"


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\n\r\x85\u2028 #:'\"-")))
def test_yaml_reads_back_as_what_it_was(text: str) -> None:
    for value in ({"a": text}, {"a": [text, {"b": text}], "c": 1}, [text]):
        shown = json_or_yaml(value, "yaml")
        assert yaml.safe_load(shown) == value
        assert yaml.safe_load(f"{shown}\n") == value


def test_text_of_several_lines_is_a_block() -> None:
    assert json_or_yaml({"run": "a\nb", "n": 1}, "yaml") == "run: |-\n  a\n  b\nn: 1"


def test_what_is_said_once_is_not_repeated_in_the_same_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.set_loglevel("info")
    output.note_once("left out")
    output.note_once("left out")
    output.set_loglevel("info")
    output.note_once("left out")

    assert capsys.readouterr().err == "left out\n" * 2
