"""Hiding as the last step: real mounts in a mount namespace of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localkube.node.runtime.processes import _SOURCE
from localkube.node.standalone.linux import mounts
from tests.localkube.node.local_node import needs_namespaces

pytestmark = [pytest.mark.slow, needs_namespaces]

SCRIPT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from localkube.node.standalone.linux import kernel, mounts

folder = sys.argv[2]
os.chdir(folder)
kernel.mount("tmpfs", "my state/data", "tmpfs")  # a file system of its own below the hidden one
os.makedirs("my state/data/deep")
open("my state/data/secret", "w").close()
kernel.mount("root", "root", flags=kernel.MS_BIND)
for number, source in enumerate(sys.argv[3:]):
    target = f"root/{number}"
    (os.mkdir if os.path.isdir(source) else os.mknod)(target)
    kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)
hidden = [f"{folder}/my state", f"{folder}/my state/data", f"{folder}/link", f"{folder}/missing"]
own = [f"{folder}/my state/own", f"{folder}/my state", folder]
mounts.hide(f"{folder}/root", hidden, own)
shown = {}
for number, source in enumerate(sys.argv[3:]):
    shown[source] = sorted(n for _, _, names in os.walk(f"root/{number}") for n in names)
    if os.path.isfile(f"root/{number}"):
        shown[source] = open(f"root/{number}").read()
print(json.dumps(shown))
"""


def test_mounts_around_at_and_below_hidden_directories_show_nothing(tmp_path: Path) -> None:
    for path in ("root", "my state/data", "my state/own/in", "kube"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("my state/secret", "my state/own/volume", "kube/secret", "plain"):
        (tmp_path / path).write_text("text")
    (tmp_path / "link").symlink_to("kube")
    sources = [
        "my state",
        "my state/data",
        "my state/data/deep",
        "my state/secret",
        "my state/own",
        "my state/own/in",
        "link",
        "plain",
        ".",
    ]

    inside = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", SCRIPT]

    result = subprocess.run(
        [*inside, _SOURCE, str(tmp_path), *sources],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    shown = json.loads(result.stdout)
    around = shown.pop(".")
    assert "plain" in around
    assert "secret" not in around
    assert shown == {
        "my state": [],
        "my state/data": [],
        "my state/data/deep": [],
        "my state/secret": [],  # a device without content
        "my state/own": ["volume"],
        "my state/own/in": [],
        "link": [],
        "plain": "text",
    }


def test_directories_around_and_inside_a_hidden_one_are_near_it(tmp_path: Path) -> None:
    for path in ("state/data", "beside"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "link").symlink_to("state")
    hidden = [f"{tmp_path}/link", f"{tmp_path}/missing"]

    near = [
        name for name in ("", "state", "state/data", "beside") if is_near(tmp_path, name, hidden)
    ]

    assert near == ["", "state", "state/data"]


def is_near(folder: Path, name: str, hidden: list[str]) -> bool:
    return mounts.is_near(str(folder / name), hidden)
