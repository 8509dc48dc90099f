"""Logs as text: no escape sequence, no control character and no endless line reaches a browser."""

from __future__ import annotations

import pytest

from muster.web.views.log_text import MAX_LINE, LineReader, LogLine, prefixed, printable


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;endless title", ""),
        (b"\x1b[2J\x1b[Hcleared", "cleared"),
        (b"a\x00b\x08c\x7f", "a␀b␈c␡"),
        (b"tab\tstays", "tab\tstays"),
        ("\u202etxt.exe".encode(), "\ufffdtxt.exe"),
        (b"caf\xe9 \xff\xfe", "caf\ufffd \ufffd\ufffd"),
        ("Ångström ✓".encode(), "Ångström ✓"),
        (b"10%\r20%\r30%\r", "30%"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_a_line_is_harmless_text(data: bytes, text: str) -> None:
    assert printable(data) == text


def test_lines_come_whole_from_chunks_of_any_size() -> None:
    reader = LineReader("pod")

    assert reader.feed(b"one\ntw") == [LogLine("pod", "one"), LogLine("pod", "tw", whole=False)]
    assert reader.feed(b"o\r\n") == [LogLine("pod", "two")]
    assert reader.feed(b"") == []
    assert reader.feed(b"\n") == [LogLine("pod", "")]


def test_a_progress_bar_replaces_its_line() -> None:
    reader = LineReader("pod")

    assert reader.feed(b" 10%\r 20%") == [LogLine("pod", " 20%", whole=False)]
    assert reader.feed(b"\r 30%\r") == [LogLine("pod", " 30%", whole=False)]
    assert reader.feed(b" 40%\ndone\n") == [LogLine("pod", " 40%"), LogLine("pod", "done")]


def test_a_line_of_a_megabyte_is_cut() -> None:
    reader = LineReader("pod")
    shown = [line for _ in range(16) for line in reader.feed(b"x" * 65536)]

    (last,) = reader.feed(b"\n")
    assert last.text.startswith("x" * MAX_LINE + " … ")
    assert f"{(1 << 20) - MAX_LINE:,} more bytes" in last.text
    assert all(len(line.text) < MAX_LINE + 100 for line in shown)
    assert reader.feed(b"short\n") == [LogLine("pod", "short")]


def test_each_line_of_a_file_with_several_logs_names_its_pod() -> None:
    parts = [prefixed(b"a\nb", b"p | ", fresh=True), prefixed(b"c\n", b"p | ", fresh=False)]
    assert b"".join(parts) == b"p | a\np | bc\n"
