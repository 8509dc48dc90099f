"""The files that an ended pod names because they are discarded with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from localkube.node.runtime import pod_records
from localkube.node.runtime.pod_records import _Search, names_of_discarded_files

STEPS: list[list[Any]] = [
    ["dir", "/tmp", 0o1777],
    ["disk", "/var/tmp", 0o1777],
    ["host", "/usr"],
    ["host", "/setup.cfg"],
    ["link", "/bin", "usr/bin"],
    ["dir", "/home/me", 0o755],
    ["host", "/home/me/code"],
    ["bind", "/v", "/home/me/data", False],
    ["host", "/opt"],
    ["disk", "/opt/me", 0o755],
    ["bind", "/h", "/etc/hosts", False],
]


class Pod:
    """A pod's folder with one container, whose programs write files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempt = folder / "containers" / "c" / "1"
        (self.attempt / "root").mkdir(parents=True)
        (self.attempt / "spec").write_text(json.dumps({"steps": STEPS}))
        (self.attempt.with_name("0") / "root").mkdir(parents=True)
        (self.attempt.with_name("0") / "root" / "old").touch()
        for mount_point in ("setup.cfg", "bin", "etc/hosts", "home/me/code/train.py"):
            self.write(mount_point)

    def write(self, path: str, size: int = 0, below: str = "root") -> None:
        file = self.attempt / below / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))

    @property
    def shown(self) -> str:
        return names_of_discarded_files(self.folder)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def test_mount_points_are_not_files_of_the_pod(pod: Pod) -> None:
    (pod.attempt / "root" / "home" / "me" / "empty").mkdir()

    assert pod.shown == ""


def test_files_in_every_new_directory_are_named(pod: Pod) -> None:
    pod.write("home/me/out/ckpt.txt")
    pod.write("opt/me/model", below="root.over")
    pod.write("ckpt")

    assert pod.shown == "/ckpt, /home/me/out/ckpt.txt, /opt/me/model"


def test_temporary_files_and_small_caches_are_not_reported(pod: Pod) -> None:
    for path in ("tmp/a/b", "home/me/__pycache__/x.pyc", "home/me/.cache/pip/x", "dev/x"):
        pod.write(path)
    pod.write("var/tmp/x", below="root.over")
    assert pod.shown == ""

    pod.write("home/me/.cache/set/train.bin", size=1 << 20)
    assert pod.shown == "/home/me/.cache/set/train.bin"


def test_a_home_inside_a_temporary_directory_is_searched(pod: Pod) -> None:
    steps = [*STEPS, ["dir", "/tmp/deep/me", 0o755]]
    (pod.attempt / "spec").write_text(json.dumps({"steps": steps}))
    pod.write("tmp/deep/me/ckpt")
    pod.write("tmp/deep/other")

    assert pod.shown == "/tmp/deep/me/ckpt"


def test_only_the_first_names_of_many_files_are_listed(pod: Pod) -> None:
    for number in range(5):
        pod.write(f"home/me/{number}")
    assert pod.shown == "/home/me/0, /home/me/1, /home/me/2 and 2 more"

    for number in range(1000):
        pod.write(f"home/me/x/{number}")
    assert pod.shown.endswith(" and at least 998 more")


def test_a_pod_without_a_root_directory_names_files_of_its_working_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "ckpt").touch()

    assert names_of_discarded_files(tmp_path) == "/ckpt"


def test_a_name_that_is_not_utf8_can_be_written_to_the_status_of_the_pod(pod: Pod) -> None:
    pod.write(os.fsdecode(b"home/me/caf\xe9.txt"))

    assert pod.shown == "/home/me/caf\ufffd.txt"
    assert pod.shown.encode()


def test_a_file_whose_size_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """As in a directory that an ordinary user may list and not enter."""
    for name in (".1-large", ".2-gone", "last"):
        (tmp_path / name).touch()
    os.truncate(tmp_path / ".1-large", 1 << 20)
    search = _Search(str(tmp_path), {}).walk()
    assert next(search) == "/.1-large"
    (tmp_path / ".2-gone").unlink()

    assert list(search) == ["/last"]


def test_deeply_nested_folders_are_searched_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_records, "_MAX_DEPTH", 2)
    (tmp_path / "work" / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "work" / "a" / "b" / "seen").touch()
    (tmp_path / "work" / "a" / "b" / "c" / "too deep").touch()

    assert names_of_discarded_files(tmp_path) == "/a/b/seen"
