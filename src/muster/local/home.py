"""Where a local cluster keeps its state, and whether one is running there.

Used by `local/up.py` and by the verbs up, down and status. One daemon per home: it holds a lock on
`daemon.lock` while it lives, so a stale pid is never mistaken for a running cluster. Who only looks
shares the lock for a moment, and is in the way of neither daemons nor others who look.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from muster.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GLANCE = 0.001
"""How long somebody may look, in seconds."""


class Home(msgspec.Struct, frozen=True):
    """The layout of `$MUSTER_HOME`."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def lock(self) -> Path:
        return self.root / "daemon.lock"

    @property
    def log(self) -> Path:
        return self.root / "daemon.log"

    @property
    def record(self) -> Path:
        """What the running daemon says of itself, written when it is ready."""
        return self.root / "daemon.json"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @classmethod
    def of_user(cls) -> Home:
        """`$MUSTER_HOME`, by default `~/.muster`."""
        return cls(Path(os.environ.get("MUSTER_HOME") or Path.home() / ".muster").absolute())

    def make(self) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the local cluster cannot keep its state in {self.root}: {error.strerror}",
                hint="Set MUSTER_HOME to a directory that you may write to.",
            ) from error

    def running(self) -> int | None:
        """The pid of the daemon, or None when no daemon holds the lock."""
        while True:
            try:
                with self.lock.open("r+") as file:
                    if _locked(file, fcntl.LOCK_SH):
                        return None
            except (FileNotFoundError, NotADirectoryError):
                return None
            pid = int(self.lock.read_text() or 0)
            if not _is_zombie(pid):
                return pid or None
            time.sleep(_GLANCE)

    def was_killed(self) -> bool:
        """Whether the last daemon ended without cleaning up behind itself."""
        try:
            return self.running() is None and bool(self.lock.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the daemon of this home for the length of the block."""
        self.make()
        with self.lock.open("a+") as file:
            while not _locked(file, fcntl.LOCK_EX):
                if not _locked(file, fcntl.LOCK_SH) and (pid := self.running()):
                    raise UsageError(
                        f"the local cluster is already up (pid {pid})",
                        hint="`arena status` shows it; `arena down` stops it.",
                    )
                fcntl.flock(file, fcntl.LOCK_UN)
                time.sleep(_GLANCE)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self.record.unlink(missing_ok=True)
            yield
            # Not in a finally: what is left of a crash is for `was_killed` to tell.
            self.record.unlink(missing_ok=True)
            file.truncate(0)

    def announce(self, **facts: Any) -> None:
        """Say that the cluster is ready; readers see the whole record or none."""
        draft = self.record.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode({"pid": os.getpid(), **facts}))
        draft.rename(self.record)

    def facts(self) -> dict[str, Any] | None:
        """What the running daemon announced, or None while it is not ready."""
        found = self._announced()
        return found if found and found["pid"] == self.running() else None

    def last_data(self) -> Path:
        """Where the daemon that runs, or was killed, keeps its pods and objects."""
        return Path(self._announced().get("data") or self.data)

    def _announced(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = msgspec.json.decode(self.record.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return found

    def choice(self) -> str:
        """What `arena use` keeps: `local`, `kube`, `kube:CONTEXT` or nothing."""
        return _text(self.root / "use")

    def choose(self, choice: str) -> None:
        """Keep a choice; an empty one forgets it."""
        self.make()
        _set_text(self.root / "use", choice)

    def choose_local(self) -> None:
        """Make the local cluster the choice, remembering the one before."""
        former = self.choice()
        if former != "local":
            _set_text(self.root / "use.former", former)
        self.choose("local")

    def choose_former(self) -> None:
        """Put back what was the choice before the local cluster came up."""
        if self.choice() == "local":
            self.choose(_text(self.root / "use.former"))
        _set_text(self.root / "use.former", "")


def _locked(file: IO[str], how: int) -> bool:
    """Take the lock, shared or alone, unless somebody has it in a way that forbids that."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended. Threads of one that was killed hold its files a bit longer."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _set_text(path: Path, text: str) -> None:
    """Write the text; an empty one removes the file."""
    if text:
        path.write_text(f"{text}\n")
    else:
        path.unlink(missing_ok=True)
