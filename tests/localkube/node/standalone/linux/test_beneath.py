"""Paths below a directory that somebody else changes at the same time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localkube.node.standalone.linux import beneath, kernel

Open = Callable[[int, str], int]


def by_hand(top: int, path: str) -> int:
    return beneath.walk(top, path, in_root=False)


def in_root_by_hand(top: int, path: str) -> int:
    return beneath.walk(top, path, in_root=True)


BENEATH = pytest.mark.parametrize("opener", [beneath.open_beneath, by_hand])
IN_ROOT = pytest.mark.parametrize("opener", [beneath.open_in_root, in_root_by_hand])


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A volume; the directory beside it has a file that must not be reached."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    return tmp_path / "top"


@contextmanager
def opened(opener: Open, top: Path, path: str) -> Iterator[Path]:
    """The path that the kernel shows for what was opened."""
    fd = beneath.open_top(str(top))
    try:
        found = opener(fd, path)
    finally:
        os.close(fd)
    try:
        yield Path(os.readlink(f"/proc/self/fd/{found}"))
    finally:
        os.close(found)


@BENEATH
def test_links_inside_the_top_are_followed_and_missing_directories_made(
    opener: Open, top: Path
) -> None:
    (top / "link").symlink_to("a/./b/../b")

    for path, expected in {"a/b": "a/b", "link": "a/b", "link/new/x": "a/b/new/x", "": ""}.items():
        with opened(opener, top, path) as found:
            assert found == top / expected


@BENEATH
@pytest.mark.parametrize(
    "target", ["../outside", "/", "a/../../outside", "{outside}", "/proc/self/root", "link"]
)
def test_links_that_lead_out_are_refused(opener: Open, top: Path, target: str) -> None:
    (top / "link").symlink_to(target.format(outside=top.parent / "outside"))

    code = errno.ELOOP if target == "link" else errno.EXDEV
    with (
        pytest.raises(OSError, match=os.strerror(code)),
        opened(opener, top, "link/secret"),
    ):
        pass

    assert os.listdir(top.parent / "outside") == ["secret"]


@IN_ROOT
def test_links_in_a_root_directory_stay_in_it(opener: Open, top: Path) -> None:
    (top / "link").symlink_to("/a/../../../a")
    (top / "dangling").symlink_to("/made/../made/here")

    for path, expected in {"/link/b": "a/b", "/../a": "a", "/dangling/x": "made/here/x"}.items():
        with opened(opener, top, path) as found:
            assert found == top / expected


def test_before_linux_5_6_the_walk_is_used(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> int:
        raise NotImplementedError

    monkeypatch.setattr(kernel, "openat2", unknown)
    (top / "link").symlink_to("../outside")

    with opened(beneath.open_beneath, top, "a/b") as found:
        assert found == top / "a" / "b"
    with pytest.raises(OSError, match="Invalid cross-device link"):
        beneath.open_beneath(beneath.open_top(str(top)), "link")


SWAP = """
import ctypes, os, sys
os.chdir(sys.argv[1])
os.symlink("../outside", "evil")
os.mkdir("good")
print(flush=True)
here, exchange = -100, 2
while True:
    ctypes.CDLL(None).renameat2(here, b"good", here, b"evil", exchange)
"""


@BENEATH
def test_a_directory_that_is_swapped_for_a_link_is_never_left(opener: Open, top: Path) -> None:
    outside = top.parent / "outside"
    with subprocess.Popen(
        [sys.executable, "-c", SWAP, str(top)], stdout=subprocess.PIPE
    ) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        refused = 0
        try:
            for _ in range(3000):
                try:
                    with opened(opener, top, "good/secret") as found:
                        assert not found.is_relative_to(outside)
                except OSError:
                    refused += 1
        finally:
            swapper.kill()
    assert refused
    assert (outside / "secret").is_file()
