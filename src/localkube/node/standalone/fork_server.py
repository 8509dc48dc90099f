"""Starts the other programs by fork: they then need not import anything.

To start Python and import its modules takes most of the time of a container's start. This program
does so once. The daemon sends a request per process, `{"program", "arguments", "command_line"}`,
with a pipe and the open files that the program gets as its descriptors 0, 1, 2 and so on. The
answer is `{"pid"}` or `{"errno"}`. The new process waits until the daemon, which now knows its PID,
writes to the pipe; it exits if the pipe is closed.

The new process is a child of the daemon, not of this one: the daemon reaps it, and it outlives
both. It shows `command_line` as its own, so that `ps`, `arena down` and a person find the shim of a
container by the container's directory.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from typing import Any

from localkube.node.standalone import pause, shim
from localkube.node.standalone.linux import kernel

PROGRAMS = {"pause": pause.main, "shim": shim.main}
MAX_REQUEST = 64 * 1024
_MAX_FILES = 8
_MAX_DESCRIPTORS = 1 << 20


def main() -> int:
    """Serve the socket that is our standard input, until the daemon has closed its end."""
    requests = socket.socket(fileno=0)
    while True:
        data, files, _, _ = socket.recv_fds(requests, MAX_REQUEST, _MAX_FILES)
        if not data:
            return 0
        request = json.loads(data)
        try:
            pid = kernel.fork_sibling()
        except OSError as error:
            answer = {"errno": error.errno or errno.EAGAIN}
        else:
            if pid == 0:
                requests.close()  # the daemon reads end of file if the fork server is killed now
                return _become(request, files[1:]) if os.read(files[0], 1) else 1
            answer = {"pid": pid}
        for file in files:
            os.close(file)
        requests.send(json.dumps(answer).encode())


def _become(request: dict[str, Any], files: list[int]) -> int:
    """Run the program in this new process, with the descriptors that it would have after exec."""
    os.setsid()
    # Copies with high numbers: one dup2 must not overwrite the source of the next.
    above = max(files) + len(files)
    for number, file in enumerate(files):
        os.dup2(file, above + number)
    for number in range(len(files)):
        os.dup2(above + number, number)
    os.closerange(len(files), _MAX_DESCRIPTORS)
    kernel.set_command_line(request["command_line"])
    sys.argv[1:] = request["arguments"]
    return PROGRAMS[request["program"]]()
