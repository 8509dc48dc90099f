"""Values that strangers write as text: read or None, never an exception, and in linear time."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from kubekit.objects.annotation_values import (
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_JSON,
    read_duration,
    read_integer,
    read_json,
    read_time,
)
from kubekit.objects.meta import read_timestamp
from tests.work import growth


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("2147483647", 2**31 - 1)]
)
def test_an_integer(text: str, number: int) -> None:
    assert read_integer(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", " 1", "1 ", "1_0", "1.0", "²", "٣", "2147483648", "9" * 5000, "1\n", "0x1"],
)
def test_anything_else_is_not_an_integer(text: str) -> None:
    assert read_integer(text) is None


def test_the_largest_integer_is_the_callers_choice() -> None:
    assert read_integer("100", 99) is None
    assert read_integer("3000000000", 10**12) == 3_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05",
        "2026-01-02t03:04:05z",
        "2026-01-02 03:04:05+00:00",
        "2026-01-02T05:04:05+02:00",
        "2026-01-02T03:04:05.000000000Z",
    ],
)
def test_a_time_is_in_utc(text: str) -> None:
    moment = read_time(text)
    assert moment == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert moment is not None
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-01-02",
        "20260102T030405Z",
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-01-02T03:04:05+24:00",
        "٢٠٢٦-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z\n",
    ],
)
def test_a_time_without_utc_is_not_a_time(text: str) -> None:
    assert read_time(text) is None
    assert read_timestamp(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3600), ("1.5m", 90), ("0", 0)],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "1d", "1 m", "nan", "inf", "1e3", "1_0", "²", "9" * 5000, "999999999h"]
)
def test_anything_else_is_not_a_duration(text: str) -> None:
    assert read_duration(text) is None


def test_a_document() -> None:
    assert read_json('{"launcher": {"cpu": "1", "memory": 5}}') == {
        "launcher": {"cpu": "1", "memory": 5}
    }
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert read_json(deepest) is not None
    assert read_json(json.dumps({"a": "[" * 100 + '"' + "{" * 100})) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "[" * 60_000,
        '{"a":' * 10_000,
        r'{"a": "\ud800"}',
        '{"a": "\ud800"}',
        '{"a": ' + "9" * 5000 + "}",
        json.dumps("a" * MAX_JSON),
    ],
)
def test_a_document_out_of_bounds_is_not_read(text: str) -> None:
    assert read_json(text) is None


@pytest.mark.parametrize(("start", "piece"), [('"', r"\""), ("", '"a'), ("", "["), ("", '"[')])
def test_brackets_and_quotes_that_nothing_closes_take_linear_time(start: str, piece: str) -> None:
    assert read_json(start + piece * (MAX_JSON // 4)) is None
    assert growth(lambda n: read_json(start + piece * n), MAX_JSON // 32) < 24


ANY_TEXT = (
    st.text()
    | st.text(alphabet='0123456789+-.:TZsmh[]{}"\\,u²٣ \ud800')
    | st.text(st.characters(exclude_categories=()))
)


@given(ANY_TEXT)
def test_nothing_is_raised_for_any_text(text: str) -> None:
    number = read_integer(text)
    assert number is None or 0 <= number <= MAX_INTEGER
    moment = read_time(text)
    assert moment is None or moment.isoformat()
    seconds = read_duration(text)
    assert seconds is None or 0 <= seconds < 1e9
    json.dumps(read_json(text)).encode()
