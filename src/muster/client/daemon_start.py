"""Starting the local cluster in the background.

The daemon is the command `muster up` in its own session, so that Ctrl-C in the terminal does not
reach it. It holds the lock of its home while it runs and writes its status there when it is ready:
`start` waits for that file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from kubekit.errors import MusterError, UsageError
from kubekit.private_files import private_opener
from muster.client.home import Home
from muster.client.interrupts import Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from muster.client import Notify

START_TIMEOUT, STOP_TIMEOUT = 60.0, 90.0
_POLL = 0.02
_LOG_SPACE = 1 << 16


def start(
    flags: Sequence[str],
    notify: Notify,
    *,
    log_format: str = "human",
    home: Home | None = None,
    lifeline: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes] | None:
    """Start the daemon with these flags of `up` and wait until it is ready; None if one was up.

    `lifeline` is the standard input of a daemon with the flag `--temporary`, which lives no longer.
    """
    home = home or Home.of_user()
    pid = home.running()
    if pid is not None:
        _already_up(pid, flags, notify)
        return None
    home.make()
    with Interrupts() as interrupts, open(home.log, "ab", opener=private_opener) as log:
        daemon = subprocess.Popen(
            # -P: a module in the current directory must not replace one of ours.
            [sys.executable, "-P", "-m", "muster", "up", f"--log-format={log_format}", *flags],
            stdin=lifeline,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "MUSTER_HOME": str(home.root)},
        )
        try:
            _wait_until_ready(home, daemon, notify, interrupts)
            interrupts.raise_if_received()  # it came while the cluster became ready
        except KeyboardInterrupt:
            _undo(daemon, notify)
            raise
    status = home.status() or {}
    if status.get("pid") not in (None, daemon.pid):
        _already_up(status["pid"], flags, notify)  # another command started it at the same time
        daemon.wait(STOP_TIMEOUT)
        return None
    notify(f"local cluster is up: {status.get('url')} (pid {daemon.pid}); commands now use it")
    if status.get("note"):
        notify(status["note"])
    return daemon


def _already_up(pid: int, flags: Sequence[str], notify: Notify) -> None:
    if flags:
        raise UsageError(
            f"the local cluster is already up (pid {pid}), so {' '.join(flags)} has no effect",
            hint="`arena down` first, then `arena up` with these flags.",
        )
    notify(f"the local cluster is already up (pid {pid})")


def _undo(daemon: subprocess.Popen[bytes], notify: Notify) -> None:
    """Stop the daemon that this command has started; another command's daemon goes on."""
    if daemon.poll() is None:
        daemon.terminate()
        notify("interrupted: stopping the local cluster again …")
    try:
        daemon.wait(STOP_TIMEOUT)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        notify("the local cluster is still stopping; `arena status` shows when it is down")
    else:
        notify("interrupted: the local cluster was not started")


def _wait_until_ready(
    home: Home, daemon: subprocess.Popen[bytes], notify: Notify, interrupts: Interrupts
) -> None:
    def settled() -> bool:
        interrupts.raise_if_received()
        status = home.status()
        if status is not None and status["pid"] == daemon.pid:
            return True
        # Our daemon has ended: because another one is up or starting, or because it failed. While
        # another one is starting, wait for its status.
        return daemon.poll() is not None and (status is not None or home.running() is None)

    ready = wait_until(settled, START_TIMEOUT, lambda: notify("starting the local cluster …"))
    if daemon.poll() is not None and home.status() is None:
        raise _start_failed(home, daemon.returncode)
    if not ready:
        daemon.terminate()
        raise MusterError(
            f"the local cluster was not ready after {START_TIMEOUT:g} s",
            hint=_last_lines(home.log),
        )


def _start_failed(home: Home, exit_code: int) -> MusterError:
    if exit_code == UsageError.cli_exit_code and (words := _usage_error(home.log)):
        return UsageError(words[0], hint=words[1])
    disk = os.statvfs(home.root)
    is_full = disk.f_bavail * disk.f_frsize < _LOG_SPACE
    if is_full or _is_cut(home.log):  # so the log does not have the reason
        return MusterError(
            f"the local cluster did not start: the disk of {home.root} is full",
            hint="Free some space on it, then `arena up`; `arena delete` then removes jobs.",
        )
    return MusterError("the local cluster did not start", hint=_last_lines(home.log))


def _is_cut(log: Path) -> bool:
    """Whether the last line was not written whole: the disk was full, even if it has room now."""
    text = log.read_bytes()
    return bool(text) and not text.endswith(b"\n")


def _usage_error(log: Path) -> tuple[str, str] | None:
    """The error that ends the log of a daemon that rejected its flags, and its hint."""
    _, found, text = f"\n{log.read_text(errors='replace')}".rpartition("\nerror: ")
    message, _, hint = text.strip().partition("\n")
    return (message, "" if hint.startswith("see: ") else hint) if found else None


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-5:]
    return "\n".join([f"The end of {log}:", *lines])


def wait_until(reached: Callable[[], bool], timeout: float, on_wait: Callable[[], None]) -> bool:
    """Poll until `reached`, False after `timeout`; `on_wait` is called once after a second."""
    start = time.monotonic()
    waits = False
    while not reached():
        waited = time.monotonic() - start
        if waited > timeout:
            return False
        if waited > 1 and not waits:
            on_wait()
            waits = True
        time.sleep(_POLL)
    return True
