"""Values that a stranger may write where a program expects a number, a time or a plain word."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

LARGE = "9" * 5000
"""More digits than `int` reads."""

TEXTS = (
    "",
    "²",
    "٣",
    "-1",
    "0",
    "00",
    "1.5",
    LARGE,
    f"{LARGE}%",
    "1e999999999",
    "0-2147483646",
    "2147483647",
    "9223372036854775807",
    "\0",
    "a\nb",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "nan",
)
TIMES = (
    "0001-01-01T00:00:00+23:59",
    "0001-01-01T00:00:00Z",
    "1969-07-20T20:17:00Z",
    "2026-01-02T03:04:05Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
)


def one_of(*values: str) -> st.SearchStrategy[str]:
    """One of these values; without their text in the strategy's `repr`, which may be too long."""
    return st.sampled_from(range(len(values))).map(values.__getitem__)


texts = st.one_of(one_of(*TEXTS), st.text(max_size=30))
times = st.one_of(st.none(), st.sampled_from(TIMES))
counts = st.sampled_from((0, 1, 2, 3, 10, 2**31 - 1, 2**62))
amounts = st.one_of(counts, one_of("0%", "25%", "100%", f"{LARGE}%", "²%", "%"))


def some_of(
    *keys: str, values: st.SearchStrategy[Any] = texts
) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these keys, with any of these values."""
    return st.dictionaries(st.sampled_from(keys), values)
