"""Chunks of logs become whole lines, each with its pod."""

from __future__ import annotations

from kubekit.objects.meta import Key
from muster.client.logs.job_logs import whole_lines

ONE, TWO = Key("n", "one"), Key("n", "two")


def test_lines_of_several_logs_stay_whole() -> None:
    chunks = [(ONE, b"a\nb"), (TWO, b"x"), (ONE, b"c\n"), (TWO, b"y\n\nz"), (TWO, b"")]

    assert list(whole_lines(chunks)) == [
        (ONE, [b"a"]),
        (ONE, [b"bc"]),
        (TWO, [b"xy", b""]),
        (TWO, [b"z"]),
    ]


def test_a_log_that_stops_within_a_line_keeps_it() -> None:
    assert list(whole_lines([(ONE, b"a\nb")])) == [(ONE, [b"a"]), (ONE, [b"b"])]
