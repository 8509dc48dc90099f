"""The lock of a database: two servers never write to it, and a check reads it only at rest."""

from __future__ import annotations

import fcntl
from typing import IO, TYPE_CHECKING

from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def take_lock(database: Path) -> IO[bytes]:
    """Lock a database; the kernel frees it on exit. ConfigError if another process has it."""
    path = database.with_suffix(".lock")
    lock = path.open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(
            f"{path.parent} is in use by another local cluster, or `arena check` reads it"
        ) from error
    return lock
