"""Live views on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

from kubekit.request_errors import NotFound, Unreachable
from muster.cli.show import live
from muster.cli.show.live import Frame
from tests.muster.cli.show.terminal import Terminal


class Enough(BaseException):
    """The reader presses Ctrl-C."""


def looking(*frames: Frame | Exception) -> Iterator[Frame | Exception]:
    yield from frames
    raise Enough


def shown(*frames: Frame | Exception) -> None:
    rest = looking(*frames)

    def look() -> Frame:
        frame = next(rest)
        if isinstance(frame, Exception):
            raise frame
        return frame

    with pytest.raises(Enough):
        live.show(look, watch=True, every=0)


def test_in_a_pipe_a_frame_follows_only_when_its_state_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown(Frame("1s", "same"), Frame("2s", "same"), Frame("3s", "other"))

    assert capsys.readouterr().out == "1s\n\n3s\n"


def test_on_a_terminal_each_frame_replaces_the_one_before() -> None:
    with redirect_stdout(Terminal()) as terminal:
        shown(Frame("one\ntwo", 1), Frame("three", 1))

    assert terminal.getvalue() == (
        "\x1b[H\x1b[Jone\x1b[K\ntwo\x1b[K\x1b[J\n\x1b[Hthree\x1b[K\x1b[J\n"
    )


@pytest.mark.parametrize(
    ("lines", "columns", "seen"),
    [
        ("5", "80", ["NAME", "a", "b", "… 3 lines more"]),
        ("6", "80", ["NAME", "a", "b", "c", "… 2 lines more"]),
        ("7", "80", ["NAME", "a", "b", "c", "d", "\x1b[32mlong\x1b[0m row"]),
        ("7", "8", ["NAME", "a", "b", "c", "d", "\x1b[32mlong\x1b[0m row"]),
        ("7", "7", ["NAME", "a", "b", "c", "d", "… 1 lin"]),
        ("1", "80", ["… 6 lines more"]),
    ],
)
def test_a_frame_taller_than_the_terminal_keeps_its_beginning(
    monkeypatch: pytest.MonkeyPatch, lines: str, columns: str, seen: list[str]
) -> None:
    monkeypatch.setenv("LINES", lines)
    monkeypatch.setenv("COLUMNS", columns)

    with redirect_stdout(Terminal()) as terminal:
        shown(Frame("NAME\na\nb\nc\nd\n\x1b[32mlong\x1b[0m row", 1))

    drawn = terminal.getvalue().removeprefix("\x1b[H\x1b[J").removesuffix("\x1b[K\x1b[J\n")
    assert drawn.split("\x1b[K\n") == seen


def test_a_cluster_that_becomes_unreachable_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown(Frame("a", 1), Unreachable("gone"), Unreachable("gone"), Frame("b", 2))

    assert capsys.readouterr() == ("a\n\nb\n", "waiting for the cluster: gone\n")


def test_an_object_that_is_deleted_while_shown_is_reported() -> None:
    frames = iter([Frame("a", 1)])

    def look() -> Frame:
        for frame in frames:
            return frame
        raise NotFound("please use 'arena submit' to create it", status=404)

    with pytest.raises(NotFound, match="the object was deleted"):
        live.show(look, watch=True, every=0)


def test_a_cluster_that_was_never_reachable_is_an_error() -> None:
    with pytest.raises(Unreachable):
        live.show(lambda: (_ for _ in ()).throw(Unreachable("gone")), watch=True, every=0)
