"""External network access without root: slirp4netns or pasta, whichever is installed.

The program carries packets between the holder's network namespace and ordinary sockets of the user;
inside, the holder has set up the same NAT as a machine with root. The program outlives the daemon:
its PID and start time are saved, and it is killed with the cluster.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
from typing import TYPE_CHECKING, Any

from muster.local.node.runtime import processes
from muster.local.node.standalone.linux import files, kernel

if TYPE_CHECKING:
    from pathlib import Path

_START_TIMEOUT = 5.0
_DEVICE = "/dev/net/tun"
_UNHELPFUL = "child failed"
_MAX_LINES = 3
_SLIRP_DNS = "10.0.2.3"
_PASTA_DNS = "169.254.53.53"


class UserModeNetwork:
    """`method` is the name of the program once it runs."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir
        self._record = data_dir / "outside"
        self._errors = data_dir / "outside.err"
        self.method = ""
        self.unavailable_reason = ""

    @property
    def name_servers(self) -> list[str]:
        """Where the program answers name queries."""
        return {"slirp4netns": [_SLIRP_DNS], "pasta": [_PASTA_DNS]}.get(self.method, [])

    def open(self, holder: int) -> None:
        """Find the program that serves this holder, or start one. Having none is no error."""
        saved = self._saved()
        if saved.get("holder") == holder and _is_running(saved):
            self.method = saved["how"]
            return
        failures = []
        for name, start in (("slirp4netns", self._slirp), ("pasta", self._pasta)):
            program = shutil.which(name)
            pid = start(program, holder) if program else 0
            if pid:
                self.method = name
                identity = {"pid": pid, "started": kernel.start_time(pid)}
                saved = identity | {"how": name, "holder": holder}
                files.write_atomically(self._record, json.dumps(saved))
                return
            if program:
                failures.append(_explain(name, self._errors.read_text(errors="replace")))
        self.unavailable_reason = (
            "; ".join(failures) or "neither slirp4netns nor pasta is installed"
        )

    def close(self) -> None:
        saved = self._saved()
        if saved and _is_running(saved):
            processes.kill_and_wait(saved["pid"])
        self._record.unlink(missing_ok=True)

    def _saved(self) -> dict[str, Any]:
        return files.read_json(self._record)

    def _slirp(self, program: str, holder: int) -> int:
        ready, theirs = os.pipe()
        os.set_inheritable(theirs, True)
        flags = ["--configure", "--mtu=65520", "--disable-host-loopback", f"--ready-fd={theirs}"]
        pid = self._spawn([program, *flags, str(holder), "tap0"])
        os.close(theirs)
        with open(ready, "rb", buffering=0) as pipe:
            if select.select([pipe], [], [], _START_TIMEOUT)[0] and pipe.read(1):
                return pid
        processes.kill_and_wait(pid)
        return 0

    def _pasta(self, program: str, holder: int) -> int:
        """pasta writes its PID and goes to the background when it is ready."""
        file = self._folder / "pasta.pid"
        file.unlink(missing_ok=True)
        ports = [word for flag in "tuTU" for word in (f"-{flag}", "none")]
        flags = ["--config-net", "--dns-forward", _PASTA_DNS, "--pid", str(file), *ports]
        pid = self._spawn([program, *flags, str(holder)])
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return 0 if code else int(file.read_text())

    def _spawn(self, argv: list[str]) -> int:
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
            (
                os.POSIX_SPAWN_OPEN,
                2,
                str(self._errors),
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
                0o600,
            ),
        ]
        env = os.environ | {"MUSTER_HOLDER": str(self._folder)}
        return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True)


def _is_running(saved: dict[str, Any]) -> bool:
    return bool(kernel.start_time(saved["pid"]) == saved["started"])


def _explain(name: str, output: str) -> str:
    """Why the program failed: its own message, and the known causes in plain words."""
    lines = [line.strip() for line in output.splitlines()]
    useful = [line for line in lines if line and not line.startswith(_UNHELPFUL)]
    message = f"{name}: {', '.join(useful[-_MAX_LINES:]) or 'it exited without a message'}"
    if _DEVICE in message and os.strerror(errno.EACCES) in message:
        return f"this user may not open {_DEVICE} ({message})"
    if _DEVICE in message and os.strerror(errno.ENOENT) in message:
        return f"this machine has no {_DEVICE} ({message})"
    return message
