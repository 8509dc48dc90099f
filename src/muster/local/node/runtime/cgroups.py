"""Memory limits: a control group for each container that has one, where the machine lets us.

Used by the runtimes. Groups are made below our own, named by the data directory, and removed with
the pod. Both generations of control groups are known; which one counts memory is read from `/proc`.
A machine that gives us none runs the pods without limits, and `arena status` says so.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from muster.errors import CannotRun

_FIRST = ("memory.limit_in_bytes", "memory.oom_control")
_SECOND = ("memory.max", "memory.events")


@dataclass(frozen=True)
class MemoryCgroups:
    """Where groups can be made. `folder` itself is made with the first of them."""

    folder: Path
    second: bool

    def make(self, name: str, limit: int) -> dict[str, str]:
        """A group of that name; what its shim needs to know of it."""
        here = self.folder / name
        amount, events = _SECOND if self.second else _FIRST
        try:
            here.mkdir(parents=True, exist_ok=True)
            if self.second:
                (self.folder / "cgroup.subtree_control").write_text("+memory")
                self._also(here / "memory.swap.max", "0")
                self._also(here / "memory.oom.group", "1")
            (here / amount).write_text(str(limit))
            if not self.second:
                self._also(here / "memory.memsw.limit_in_bytes", str(limit))
        except OSError as error:
            raise CannotRun(f"the memory limit could not be set: {error.strerror}") from error
        return {"group": str(here), "events": str(here / events)}

    def remove(self, prefix: str) -> None:
        """Remove the groups whose names start so; one in use stays."""
        if self.folder.is_dir():
            for here in self.folder.iterdir():
                if here.is_dir() and here.name.startswith(prefix):
                    with contextlib.suppress(OSError):
                        here.rmdir()

    def close(self) -> None:
        """Remove everything."""
        self.remove("")
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _also(self, file: Path, text: str) -> None:
        """Where the kernel has it: swap would only stretch the limit."""
        with contextlib.suppress(OSError):
            file.write_text(text)


def find_memory_cgroups(data_dir: Path, proc: Path = Path("/proc/self")) -> MemoryCgroups | None:
    """Where this process may make groups that count memory; None where it may not."""
    digest = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()
    own = _own((proc / "cgroup").read_text())
    for kind, root, options in _mounts((proc / "mountinfo").read_text()):
        if kind == "cgroup" and "memory" in options and "memory" in own:
            parents = [root / own["memory"].strip("/")]
        elif kind == "cgroup2" and "" in own:
            parents = [p for p in _upwards(root, own[""]) if _delegates(p)]
        else:
            continue
        for parent in parents:
            here = parent / f"muster-{digest[:8]}"
            if _allowed(here):
                return MemoryCgroups(here, second=kind == "cgroup2")
    return None


def _own(text: str) -> dict[str, str]:
    """Our own group by controller; the second generation's is under the empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _mounts(text: str) -> list[tuple[str, Path, list[str]]]:
    """Kind, place and options of every control group file system."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind.startswith("cgroup"):
            found.append((kind, Path(before.split(" ")[4]), options.split(",")))
    return found


def _upwards(root: Path, own: str) -> list[Path]:
    here = root / own.strip("/")
    return [here, *(parent for parent in here.parents if parent.is_relative_to(root))]


def _delegates(parent: Path) -> bool:
    """Whether groups below this one count memory. We enable it nowhere but below our own: a group
    with processes in it could not, and another's is not ours to change."""
    try:
        return "memory" in (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _allowed(here: Path) -> bool:
    """Whether a group can be made there, and a process put into it."""
    trial = here / "trial"
    try:
        here.mkdir(exist_ok=True)
        trial.mkdir(exist_ok=True)
        (trial / "cgroup.procs").open("a").close()
    except OSError:
        return False
    finally:
        for folder in (trial, here):  # ours stays where pods of a former daemon run in it
            with contextlib.suppress(OSError):
                folder.rmdir()
    return True
