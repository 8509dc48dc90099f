"""Logs on a terminal and in a pipe, alone and with the names of their pods."""

from __future__ import annotations

import io
import sys

import pytest

from kubekit.objects.meta import Key
from muster.cli.show.log_prefixes import escape_controls, print_log, print_logs


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, kind: type[io.TextIOWrapper], *pieces: bytes) -> bytes:
    raw = io.BytesIO()
    out = kind(raw)
    monkeypatch.setattr(sys, "stdout", out)
    print_log(pieces)
    monkeypatch.undo()
    out.detach()
    return raw.getvalue()


@pytest.mark.parametrize(
    ("written", "expected"),
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
    monkeypatch: pytest.MonkeyPatch, written: bytes, expected: bytes
) -> None:
    assert escape_controls(written) == expected
    assert shown(monkeypatch, Terminal, written) == expected
    pieces = [written[i : i + 1] for i in range(len(written))]
    assert shown(monkeypatch, Terminal, *pieces) == expected
    assert shown(monkeypatch, io.TextIOWrapper, *pieces) == written


def test_every_line_of_many_logs_has_the_name_of_its_pod(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    short, long = Key("default", "w-0"), Key("default", "w-10")
    chunks = [(short, b"a"), (long, b"x\ny\n"), (short, b"b\nc"), (long, b""), (short, b"")]

    print_logs(chunks, [short, long])

    printed = capfdbinary.readouterr().out.decode().splitlines()
    assert printed == ["w-10 | x", "w-10 | y", "w-0  | ab", "w-0  | c"]
