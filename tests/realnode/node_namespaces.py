"""Mount and process namespaces in which the programs of a node run.

The first process only waits. When it is killed, the kernel kills every process of the namespace,
containers included, and then drops the mounts: nothing has to be unmounted by hand. The programs
have /run, /var/lib and /var/log for themselves.

A kubelet sets switches of the kernel that belong to the whole machine (`kernel.panic` and others).
It finds plain files in their place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.controlplane.processes import Child
from tests.waiting import until

CGROUPS = Path("/sys/fs/cgroup")
CGROUP = "k8s.io"
"""containerd's cgroup for the containers of a kubelet without cgroups per quality of service."""
SWITCHES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""With the values that a kubelet wants."""

# An ignored SIGCHLD stays ignored after exec: the kernel then reaps the orphans of the namespace.
_FIRST = """
set -e
mount --make-rshared /
mount -t tmpfs tmpfs /run
mount --bind "$1/lib" /var/lib
mount --bind "$1/log" /var/log
for switch in $2; do mount --bind "$1/switches/$switch" "/proc/sys/$switch"; done
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
touch "$1/prepared"
trap '' CHLD
exec sleep infinity
"""


class Namespaces:
    """The namespaces of one node; `start` runs a program in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid = 0
        self._children: list[Child] = []

    def command(self, *words: str) -> list[str]:
        """The words as a command that runs in the namespaces."""
        return [_path("nsenter"), f"--target={self.pid}", "--mount", "--pid", "--", *words]

    def start(self, name: str, words: Sequence[str]) -> Child:
        child = Child(self.command(*words), self.folder / f"{name}.log")
        self._children.append(child)
        return child

    def reap(self) -> None:
        """Wait for the programs, which the end of the namespaces has killed."""
        while self._children:
            self._children.pop().kill()


@contextmanager
def own_namespaces(folder: Path) -> Iterator[Namespaces]:
    """Namespaces whose files are in the folder, until the end of the block."""
    for name in ("lib", "log", "switches"):
        (folder / name).mkdir()
    for name, value in SWITCHES.items():
        file = folder / "switches" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    words = [_path("unshare"), "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    script = ["/bin/sh", "-c", _FIRST, "sh", str(folder), " ".join(SWITCHES)]
    namespaces = Namespaces(folder)
    first = Child([*words, *script], folder / "namespaces.log")
    try:
        first.await_ready((folder / "prepared").exists)
        namespaces.pid = _only_child(first.pid)
        yield namespaces
    finally:
        first.kill()
        namespaces.reap()


def remove_cgroups() -> None:
    """Remove the containers' cgroups in every hierarchy, once their processes have ended."""
    for top in [CGROUPS / CGROUP, *CGROUPS.glob(f"*/{CGROUP}")]:
        until(partial(_removed, top), timeout=60, what=f"{top} has no process")


def _removed(top: Path) -> bool:
    try:
        for folder, _, _ in os.walk(top, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True


def _path(program: str) -> str:
    path = shutil.which(program)
    assert path is not None, f"no {program}"
    return path


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
