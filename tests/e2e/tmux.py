"""A user at a terminal: commands are typed into a real terminal, and its text is read.

`Screen` is a tmux session with a bare bash. A command has ended when the shell has printed the mark
that was typed after it; the mark contains the exit code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from tests.prerequisites import missing_prerequisite
from tests.waiting import until

PROMPT = re.compile(r"^(?:\^C)?>\Z", re.MULTILINE)


class Screen:
    """A terminal of 200 columns, for the length of a `with` block."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        if shutil.which("tmux") is None:
            missing_prerequisite("tmux", "no tmux on the PATH")
        self._env, self._folder = env, folder
        # Short, as the path of a socket must be: tmux's default folder in /tmp is never removed.
        self._sockets = tempfile.TemporaryDirectory(prefix="tmux-")
        self._count = 0

    def __enter__(self) -> Self:
        shell = ["env", "-i", *(f"{key}={value}" for key, value in self._env.items())]
        shell += ["TERM=screen-256color", "PS1=> ", "bash", "--norc", "--noprofile", "-i"]
        size = ["-x", "200", "-y", "50"]
        self._tmux("new-session", "-d", *size, "-c", str(self._folder), *shell)
        self._tmux("set-option", "-g", "history-limit", "20000")
        # Text typed before the prompt appears would be on the terminal twice.
        until(lambda: self.text().startswith(">"), what="the shell's prompt")
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server", check=False)
        self._sockets.cleanup()

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")

    def interrupt(self) -> None:
        """Press Ctrl-C and wait for the prompt: the shell may drop text typed before it."""
        self._tmux("send-keys", "C-c")
        until(lambda: PROMPT.search(self.text().rstrip()), what="the prompt after Ctrl-C")

    def text(self, *, colour: bool = False) -> str:
        """The text of the terminal and its scrollback, with wrapped lines joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", *(["-e"] if colour else []))

    def run(self, line: str, *, timeout: float = 120, code: int = 0) -> str:
        """Type a command and wait for its end; returns its output. It must exit with `code`."""
        self._count += 1
        mark = f"end-of-{self._count}"
        self.type(f"{line}; echo {mark}=$?")

        def ended() -> re.Match[str] | None:
            pattern = rf"^(?:\^C)?> [^\n]*; echo {mark}=\$\?\s*\n(.*?)^{mark}=(\d+)"
            return re.search(pattern, self.text(), re.MULTILINE | re.DOTALL)

        try:
            match = until(ended, timeout=timeout, every=0.1, what=line)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
        assert int(match[2]) == code, f"{line}\n{match[0]}"
        return "\n".join(row.rstrip() for row in match[1].splitlines())

    def _tmux(self, *words: str, check: bool = True) -> str:
        result = subprocess.run(
            ["tmux", "-S", f"{self._sockets.name}/socket", "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or result.returncode == 0, result.stderr
        return result.stdout
