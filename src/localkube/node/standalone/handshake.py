"""Shared by `pause` and `namespace_holder`, which make namespaces, tell the daemon and sleep."""

from __future__ import annotations

import json
import os
import warnings  # noqa: F401 (os.execvpe imports it, after the root directory has changed)
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import socket


class Channel:
    """Messages to and from another process: one JSON object per line."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rw", encoding="utf-8")

    def send(self, **body: Any) -> None:
        self._file.write(json.dumps(body) + "\n")
        self._file.flush()

    def receive(self) -> Any:
        """The next message; None if the other process has closed its end."""
        return json.loads(self._file.readline() or "null")


def close_streams() -> None:
    """Replace standard input, output and error by `/dev/null`."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def become_sleep(env: dict[str, str]) -> NoReturn:
    """Replace this process by `sleep`: it keeps our namespaces and needs only a megabyte.

    No descriptor of the daemon stays open. `env` names the cluster or pod that it belongs to.
    """
    os.chdir("/")
    last = os.open("/", os.O_PATH)
    os.closerange(3, last + 1024)
    os.execvpe("sleep", ["sleep", "infinity"], env)
