"""Tables, JSON and YAML as people and pipes see them."""

from __future__ import annotations

import yaml
from hypothesis import given, strategies as st

from muster.cli.show.table import json_or_yaml, table, underlined_table, with_namespaces


def test_columns_are_as_wide_as_their_widest_cell_plus_two() -> None:
    assert table([("NAME", "AGE"), ("a-long-name", "1s")]) == "NAME         AGE\na-long-name  1s"


def test_dashes_underline_the_header() -> None:
    assert (
        underlined_table(["NAME", "X"], [("a", "b")], indent="  ")
        == "  NAME  X\n  ----  -\n  a     b"
    )


def test_control_characters_in_cells_are_escaped() -> None:
    assert "\x1b" not in table([("\x1b[31mred", "x")])


def test_a_cell_never_becomes_two_lines() -> None:
    assert table([("a", "two\nlines")]) == "a  two lines"


def test_the_namespaces_become_the_first_column() -> None:
    rows = [("NAME", "AGE"), ("a", "1s")]

    assert with_namespaces(rows, ["x"]) == [("NAMESPACE", "NAME", "AGE"), ("x", "a", "1s")]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\n\r\x85\u2028 #:'\"-")))
def test_yaml_reads_back_as_the_same_value(text: str) -> None:
    for value in ({"a": text}, {"a": [text, {"b": text}], "c": 1}, [text]):
        shown = json_or_yaml(value, "yaml")
        assert yaml.safe_load(shown) == value
        assert yaml.safe_load(f"{shown}\n") == value


def test_text_of_several_lines_is_a_block() -> None:
    assert json_or_yaml({"run": "a\nb", "n": 1}, "yaml") == "run: |-\n  a\n  b\nn: 1"
