"""Read a file whose content gives rights: a token, a key, our own kubeconfig.

Whoever writes such a file has these rights. A file in a folder that was once open to others may
come from another user, so the descriptor that is read must be of a file of ours that nobody else
may open, and not of the target of a link.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: Path, *, afterwards: str = "`arena up` makes a new one") -> bytes:
    """The content; OSError if it cannot be read, ConfigError if it is not the user's alone.

    `afterwards` is what a person needs to know before removing a file that is not used.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "it is a symbolic link", afterwards) from error
        raise
    with open(descriptor, "rb") as file:
        if problem := _problem(os.fstat(descriptor)):
            raise _refused(path, problem, afterwards)
        return file.read()


def _problem(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return f"it belongs to another user (uid {status.st_uid})"
    if status.st_mode & _OTHERS:
        return f"other users may open it (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _refused(path: Path, problem: str, afterwards: str) -> ConfigError:
    hint = f"Look who has made it, then `rm {path}`: {afterwards}."
    return ConfigError(f"{path} is not used: {problem}", hint=hint)
