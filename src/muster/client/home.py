"""`$MUSTER_HOME`: the state of a local cluster, and whether its daemon is running.

There is one daemon per home. It holds a lock on `daemon.lock` while it lives, so a stale PID is
never taken for a running cluster. Readers take a shared lock for a moment, and block neither a
daemon nor one another.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NO_FILE = (FileNotFoundError, NotADirectoryError, PermissionError)
"""A home that we may not enter has no cluster of ours."""
_SIGNS = ("daemon.lock", "daemon.log", "kubeconfig", "use", "data", "images", "logs")
_SHARED_LOCK_TIME = 0.001
"""Seconds for which a reader may hold the lock."""


class Absence(NamedTuple):
    """Why no daemon of a home is ready, and the next step."""

    state: str
    """`starting` (or stopping), `killed`, `stopped` (its objects are stored) or `down`."""
    hint: str
    pid: int = 0
    """Of a daemon that is starting or stopping."""


class _Below:
    """A file or folder of a home, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: Home, _: type[Home]) -> Path:
        return home.root / self._name


class Home(msgspec.Struct, frozen=True):
    """The layout of `$MUSTER_HOME`."""

    root: Path

    kubeconfig = _Below("kubeconfig")
    lock = _Below("daemon.lock")
    log = _Below("daemon.log")
    record = _Below("daemon.json")
    """The status of the running daemon, written when it is ready."""
    dashboard_keys = _Below("dashboard.keys")
    """The keys with which the owner's commands make addresses of the dashboard."""
    data = _Below("data")
    images = _Below("images")
    logs = _Below("logs")
    """The directories that jobs write for TensorBoard, unless they name another one."""

    @classmethod
    def of_user(cls) -> Home:
        """`$MUSTER_HOME`, by default `~/.muster`."""
        return cls(Path(os.environ.get("MUSTER_HOME") or Path.home() / ".muster").absolute())

    def make(self) -> None:
        """Make the directory for its owner alone; UsageError if it cannot be used."""
        from kubekit.private_files import Purpose, close_to_others  # few commands need it

        purpose = Purpose("MUSTER_HOME", "Set MUSTER_HOME to another directory", _SIGNS)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.root, os.W_OK):
                read_only = os.statvfs(self.root).f_flag & os.ST_RDONLY
                code = errno.EROFS if read_only else errno.EACCES
                raise OSError(code, os.strerror(code))
            close_to_others(self.root, purpose)
        except OSError as error:
            raise UsageError(
                f"the local cluster cannot keep its state in {self.root}: {error.strerror}",
                hint="Set MUSTER_HOME to a directory that you may write to.",
            ) from error

    def trusted_kubeconfig(self) -> Path:
        """The kubeconfig; UsageError if it is of neither the user nor the owner of the home.

        Whoever writes it chooses the server that gets the user's jobs.
        """
        try:
            status, owner = self.kubeconfig.lstat(), self.root.stat().st_uid
        except _NO_FILE:
            return self.kubeconfig  # its reader says so
        if status.st_uid not in (os.geteuid(), owner) or status.st_mode & 0o022:
            raise UsageError(
                f"{self.kubeconfig} is not used: another user may have written it",
                hint=f"Look at it, then `rm {self.kubeconfig}`: `arena up` makes a new one.",
            )
        return self.kubeconfig

    def running(self) -> int | None:
        """The pid of the daemon, or None when no daemon holds the lock."""
        while True:
            try:
                with self.lock.open() as file:  # read-only: so may be the file system
                    if _locked(file, fcntl.LOCK_SH):
                        return None
            except _NO_FILE:
                return None
            pid = int(_text(self.lock) or 0)
            if not _is_zombie(pid):
                return pid or None  # empty: the daemon has not written its PID yet
            time.sleep(_SHARED_LOCK_TIME)

    def was_killed(self) -> bool:
        """Whether the last daemon ended without cleaning up."""
        return self.running() is None and bool(_text(self.lock))

    def absence(self) -> Absence:
        """What became of the daemon, if `status` is None."""
        if pid := self.running():
            return Absence("starting", "", pid)
        if self.was_killed():
            up = f"arena up --detach {self.last_flags()}".rstrip()
            hint = f"pods may still run: `{up}` finds them again, `arena down` stops them"
            return Absence("killed", hint)
        data = self.stored_data()
        if data is None:
            return Absence("down", "`arena up --detach` starts it")
        flag = f" --data-dir {data}" if data != self.data else ""
        return Absence("stopped", f"`arena up --detach{flag}` starts it again, with its jobs")

    @contextmanager
    def held(self, data: AbstractContextManager[None] | None = None) -> Iterator[None]:
        """Hold the lock as the daemon of this home.

        `data` is entered with the lock: if the data directory is refused, the PID of a killed
        daemon stays.
        """
        from kubekit.private_files import new_private_file, write_in_place

        self.make()
        with open(self.lock, "r+", opener=new_private_file) as file:
            while not _locked(file, fcntl.LOCK_EX):
                # A reader's shared lock is not a daemon: try again until it is released.
                if not _locked(file, fcntl.LOCK_SH) and (pid := self.running()):
                    raise UsageError(
                        f"the local cluster is already up (pid {pid})",
                        hint="`arena status` shows it; `arena down` stops it.",
                    )
                fcntl.flock(file, fcntl.LOCK_UN)
                time.sleep(_SHARED_LOCK_TIME)
            with data or nullcontext():
                write_in_place(file, str(os.getpid()))
                self.record.unlink(missing_ok=True)
                yield
                # Not in a finally: after a crash the PID must stay, for `was_killed`.
                self.record.unlink(missing_ok=True)
                file.truncate(0)

    def write_status(self, **status: Any) -> None:
        """Write the status when the cluster is ready; readers see all of it or nothing."""
        draft = self.record.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode({"pid": os.getpid(), **status}))
        draft.rename(self.record)
        _set_text(self.root / "last-data", str(status.get("data") or ""))

    def write_stopping(self) -> None:
        """Add to the status of this daemon that it stops; if it was never ready, it has none."""
        if status := self.status():
            self.write_status(**(status | {"stopping": True}))

    def status(self) -> dict[str, Any] | None:
        """The status of the running daemon, or None while it is not ready.

        `stopping` is in it while the daemon waits for its pods to end.
        """
        status = self._last_status()
        return status if status and status["pid"] == self.running() else None

    def last_data(self) -> Path:
        """The data directory of the daemon that runs or was killed."""
        return Path(self._last_status().get("data") or self.data)

    def last_flags(self) -> str:
        """The flags of the `up` that started the daemon, which runs or was killed."""
        return str(self._last_status().get("flags") or "")

    def stored_data(self) -> Path | None:
        """The data directory of the last daemon that was ready; None if there is none."""
        data = Path(_text(self.root / "last-data") or self.data)
        return data if data.is_dir() else None

    def hidden_directories(self, user_home: str, data: Path) -> tuple[str, ...]:
        """The directories that pods must not see: the cluster's state and kubeconfigs."""
        from kubekit.private_files import home_of_account

        # $HOME may name another directory than the account, which pods see too.
        homes = dict.fromkeys([user_home, home_of_account()])
        private = (os.path.join(home, name) for home in homes for name in (".kube", ".muster"))
        return tuple(dict.fromkeys([str(data), *private, str(self.root)]))

    def _last_status(self) -> dict[str, Any]:
        status: dict[str, Any] = msgspec.json.decode(_text(self.record) or "{}")
        return status

    def choice(self) -> str:
        """The cluster chosen by `arena use`: `local`, `kube`, `kube:CONTEXT` or nothing."""
        return _text(self.root / "use").partition("\n")[0]

    def choice_files(self) -> tuple[Path, ...]:
        """The kubeconfigs that the choice is of; none: those that kubectl reads."""
        return tuple(map(Path, _text(self.root / "use").split("\n")[1:]))

    def choose(self, choice: str, files: Iterable[Path] = ()) -> None:
        """Save a choice, then a line for each kubeconfig that it is of; an empty one removes it."""
        self.make()
        _set_text(self.root / "use", "\n".join([choice, *map(str, files)]))

    def choose_local(self) -> None:
        """Choose the local cluster, and remember the choice before."""
        if self.choice() != "local":
            _set_text(self.root / "use.former", _text(self.root / "use"))
        self.choose("local")

    def choose_former(self) -> None:
        """Restore the choice from before the local cluster came up."""
        if self.choice() == "local":
            _set_text(self.root / "use", _text(self.root / "use.former"))
        _set_text(self.root / "use.former", "")


def _locked(file: IO[str], mode: int) -> bool:
    """Try to take the lock, shared or exclusive; returns whether it was taken."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_zombie(pid: int) -> bool:
    """Whether a process has exited. The threads of a killed process hold its files a little
    longer."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except _NO_FILE:
        return ""


def _set_text(path: Path, text: str) -> None:
    """Write the text; an empty text removes the file."""
    if text:
        path.write_text(f"{text}\n")
    elif path.exists():  # no error on a read-only file system
        path.unlink(missing_ok=True)
