"""The way out without root: slirp4netns or pasta, whichever the machine has, at the holder's side.

Used by `rootless`. The program carries packets between the holder's network and ordinary sockets of
the user; inside, `holder` has set up the same NAT as a machine would. It is found again after a
restart of the daemon by its PID and start time, and ended with the cluster.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
from typing import TYPE_CHECKING, Any

from muster.local.node.runtime import sandbox
from muster.local.node.runtime.pod_records import write_atomically
from muster.local.node.standalone.linux import kernel

if TYPE_CHECKING:
    from pathlib import Path

_READY = 5.0
_DEVICE = "/dev/net/tun"
_NO_NEWS = "child failed"
_MOST_LINES = 3
_SLIRP_DNS = "10.0.2.3"
_PASTA_DNS = "169.254.53.53"


class UserModeNetwork:
    """One such program for one holder. `how` is its name once it works."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir
        self._record = data_dir / "outside"
        self._errors = data_dir / "outside.err"
        self.how = ""
        self.why_not = ""

    @property
    def servers(self) -> list[str]:
        """Where the program answers questions for names."""
        return {"slirp4netns": [_SLIRP_DNS], "pasta": [_PASTA_DNS]}.get(self.how, [])

    def open(self, holder: int) -> None:
        """Find the program that serves this holder, or start one; none is no error."""
        known = self._known()
        if known.get("holder") == holder and kernel.start_time(known["pid"]) == known["started"]:
            self.how = known["how"]
            return
        trouble = []
        for name, start in (("slirp4netns", self._slirp), ("pasta", self._pasta)):
            program = shutil.which(name)
            pid = start(program, holder) if program else 0
            if pid:
                self.how = name
                facts = {
                    "pid": pid,
                    "started": kernel.start_time(pid),
                    "how": name,
                    "holder": holder,
                }
                write_atomically(self._record, json.dumps(facts))
                return
            if program:
                trouble.append(_explained(name, self._errors.read_text(errors="replace")))
        self.why_not = "; ".join(trouble) or "neither slirp4netns nor pasta is installed"

    def close(self) -> None:
        known = self._known()
        if known and kernel.start_time(known["pid"]) == known["started"]:
            sandbox.end(known["pid"])
        self._record.unlink(missing_ok=True)

    def _known(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _slirp(self, program: str, holder: int) -> int:
        ready, theirs = os.pipe()
        os.set_inheritable(theirs, True)
        flags = ["--configure", "--mtu=65520", "--disable-host-loopback", f"--ready-fd={theirs}"]
        pid = self._spawn([program, *flags, str(holder), "tap0"])
        os.close(theirs)
        with open(ready, "rb", buffering=0) as heard:
            if select.select([heard], [], [], _READY)[0] and heard.read(1):
                return pid
        sandbox.end(pid)
        return 0

    def _pasta(self, program: str, holder: int) -> int:
        """It goes to the background when it is ready, and writes its PID."""
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


def _explained(name: str, said: str) -> str:
    """Why the program does not work: in its own words, and what they mean if that is known."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not line.startswith(_NO_NEWS)]
    own = f"{name}: {', '.join(telling[-_MOST_LINES:]) or 'it ended without a word'}"
    if _DEVICE in own and os.strerror(errno.EACCES) in own:
        return f"this user may not open {_DEVICE} ({own})"
    if _DEVICE in own and os.strerror(errno.ENOENT) in own:
        return f"this machine has no {_DEVICE} ({own})"
    return own
