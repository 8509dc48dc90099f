"""Folders and files that no other user may enter: they hold tokens and keys.

A folder that is ours and open to others is closed. It is refused if it has files of others, which
we would take for our own (a token, a key), or if it has other files of ours, which may be shared on
purpose. A refused folder is not changed.

Whoever writes a file with a token or a key has its rights. A file in a folder that was once open to
others may come from another user, so `read_private` reads only a file of ours that nobody else may
open, and never follows a link.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, TYPE_CHECKING, NamedTuple

from kubekit.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OTHERS = stat.S_IRWXG | stat.S_IRWXO
SYSTEM = "lost+found"  # root's, in the first folder of a file system


class Purpose(NamedTuple):
    """What a folder is for, in messages and for its checks."""

    name: str
    other: str
    """How to use another one."""
    signs: tuple[str, ...]
    """Files that only the cluster makes."""


def close_to_others(path: Path, purpose: Purpose) -> None:
    """Let no other user enter the folder; UsageError if that is not ours to decide."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{purpose.name} {path} belongs to another user (uid {status.st_uid}), "
            "who could read the cluster's secrets",
            hint=f"{purpose.other}, or change its owner with `chown`.",
        )
    _check_entries(path, purpose)
    if status.st_mode & OTHERS:
        _close(path, status.st_mode, purpose)
        _check_entries(path, purpose)  # again: nothing can be added now


def _check_entries(path: Path, purpose: Purpose) -> None:
    for entry, status in entries(str(path)):
        if entry.name != SYSTEM:
            check_owner(entry, status, purpose)


def entries(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """The entries; those that are removed while this runs are left out."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            yield entry, entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue


def check_owner(entry: os.DirEntry[str], status: os.stat_result, purpose: Purpose) -> None:
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{entry.path} in {purpose.name} belongs to another user (uid {status.st_uid})",
            hint=f"{purpose.other}, or look at the file, then `rm -r {entry.path}`.",
        )


def _close(path: Path, mode: int, purpose: Purpose) -> None:
    names = os.listdir(path)
    if names and not any(name in names for name in purpose.signs):
        raise UsageError(
            f"other users may enter {purpose.name} {path}, and it has files that are not the "
            "cluster's",
            hint=f"`chmod 700 {path}` closes it; or use an empty directory.",
        )
    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    report_closed(str(path))


def report_closed(path: str) -> None:
    import logging  # it takes milliseconds, and every command imports this module

    logging.getLogger(__name__).info("closed %s to other users", path)


def home_of_account() -> str:
    """The home directory of this user's account, whatever $HOME says."""
    import pwd  # only the few commands that start or check pods need it

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a user without an account, e.g. in a container
        return os.path.expanduser("~")


def private_opener(path: str, flags: int) -> int:
    """For `open`, to create a file that only its owner may read, whatever the umask."""
    return os.open(path, flags, 0o600)


def new_private_file(path: str, flags: int) -> int:
    """For `open` with "r+": like `private_opener`, for a file that may not exist yet."""
    return os.open(path, flags | os.O_CREAT, 0o600)


def write_in_place(file: IO[str], text: str) -> None:
    """Replace the text of an open file; a full disk has the block of the text before."""
    file.seek(0)
    file.write(text)
    file.flush()
    file.truncate()


def read_private(path: Path, *, afterwards: str = "`arena up` makes a new one") -> bytes:
    """The content; OSError if it cannot be read, ConfigError if it is not the user's alone.

    `afterwards` is what a person needs to know before removing a file that is not used.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unused(path, "it is a symbolic link", afterwards) from error
        raise
    with open(descriptor, "rb") as file:
        if problem := _openness(os.fstat(descriptor)):
            raise _unused(path, problem, afterwards)
        return file.read()


def _openness(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return f"it belongs to another user (uid {status.st_uid})"
    if status.st_mode & OTHERS:
        return f"other users may open it (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _unused(path: Path, problem: str, afterwards: str) -> ConfigError:
    hint = f"Look who has made it, then `rm {path}`: {afterwards}."
    return ConfigError(f"{path} is not used: {problem}", hint=hint)
