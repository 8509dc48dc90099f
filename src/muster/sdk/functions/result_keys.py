"""The keys of a user's own jobs, so that another process of the user can read their results.

A key is in a file of `$MUSTER_HOME/function-keys`, which only the user can read, and pods of a
local cluster cannot see. The file is named by the UID of the job. The key in the job's own Secret
is never used here: whoever may write Secrets could replace it together with the result.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import ConfigError
from kubekit.objects.kinds import decoder_of
from kubekit.private_files import private_opener, read_private
from muster.client.home import Home

if TYPE_CHECKING:
    from pathlib import Path

_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]*")
KEEP_SECONDS = 90 * 86400
"""Keys of older jobs are removed when a new one is stored."""


class ResultKey(msgspec.Struct, frozen=True):
    """How the result of one job is checked, and where a large one is."""

    key: bytes
    shared_dir: str = ""

    def __repr__(self) -> str:
        return "ResultKey()"  # the key is a secret


_of_this_process: dict[str, ResultKey] = {}


def _path(job_uid: str, home: Home | None) -> Path:
    """The file of a key; ConfigError if the UID that the server gave could be a path."""
    if not _UID.fullmatch(job_uid):
        raise ConfigError(f"the cluster gave the job an invalid UID: {job_uid!r}")
    return (home or Home.of_user()).root / "function-keys" / job_uid


def remember(job_uid: str, key: ResultKey) -> None:
    """Keep the key of a new job in memory."""
    _of_this_process[job_uid] = key


def store(job_uid: str, key: ResultKey, home: Home | None = None) -> None:
    """Keep the key of a new job for other processes; remove those of jobs that are long gone.

    `home` is that of the job's local cluster, by default the user's own.
    """
    path = _path(job_uid, home)
    (home or Home.of_user()).make()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with open(path, "xb", opener=private_opener) as file:
        file.write(msgspec.json.encode(key))
    oldest = time.time() - KEEP_SECONDS
    for row in os.scandir(path.parent):
        with suppress(FileNotFoundError):  # another process removes it too
            if row.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(row.path)


def find(job_uid: str, home: Home | None = None) -> ResultKey | None:
    """The key of a job; None if this user has not submitted it from here."""
    if job_uid in _of_this_process:
        return _of_this_process[job_uid]
    path = _path(job_uid, home)
    try:
        content = read_private(path, afterwards="the result of its job cannot be read any more")
        return decoder_of(ResultKey).decode(content)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
