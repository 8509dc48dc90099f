"""On a terminal a log may colour its lines and do nothing else; a pipe gets its bytes."""

from __future__ import annotations

import io
import sys

import pytest

from muster.cli.show.log_lines import TerminalWriter, escape_controls


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, kind: type[io.TextIOWrapper], *pieces: bytes) -> bytes:
    raw = io.BytesIO()
    out = kind(raw)
    monkeypatch.setattr(sys, "stdout", out)
    screen = TerminalWriter()
    for piece in pieces:
        screen.write(piece)
    screen.end()
    monkeypatch.undo()
    out.detach()
    return raw.getvalue()


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (b"\x1b[31mred\x1b[0m\r 3%\x08\t.\n", b"\x1b[31mred\x1b[0m\r 3%\x08\t.\n"),
        (b"\x1b[38;5;208mx", b"\x1b[38;5;208mx"),
        (b"\x1b[2J\x1b[H", b"\\x1b[2J\\x1b[H"),
        (b"\x1b]0;title\x07", b"\\x1b]0;title\\x07"),
        (b"\xc2\x9b2J \xc3\xa9", b"\\xc2\\x9b2J \xc3\xa9"),
        (b"\x1b", b"\\x1b"),
    ],
)
def test_only_colours_reach_a_terminal(
    monkeypatch: pytest.MonkeyPatch, said: bytes, seen: bytes
) -> None:
    assert escape_controls(said) == seen
    assert shown(monkeypatch, Terminal, said) == seen
    pieces = [said[i : i + 1] for i in range(len(said))]
    assert shown(monkeypatch, Terminal, *pieces) == seen
    assert shown(monkeypatch, io.TextIOWrapper, *pieces) == said
