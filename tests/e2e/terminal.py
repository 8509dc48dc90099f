"""A program on a pseudo-terminal, as a person sees it: keys go in, the screen's text comes out."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_READ = 64 * 1024


class Terminal:
    """The program and all that it has printed."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._fd, theirs = pty.openpty()
        self.shown = ""
        self._program = subprocess.Popen(
            argv, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str, timeout: float = 30) -> None:
        """Read until the text was shown."""
        deadline = time.monotonic() + timeout
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} was not shown:\n{self.shown}"
            if select.select([self._fd], [], [], left)[0]:
                self.shown += self._read()

    def exit_code(self, timeout: float = 30) -> int:
        """Wait for the end, and read the rest."""
        code = self._program.wait(timeout)
        while select.select([self._fd], [], [], 0)[0] and (text := self._read()):
            self.shown += text
        os.close(self._fd)
        return code

    def kill(self) -> None:
        """End the program if it still runs."""
        if self._program.poll() is None:
            self._program.kill()
            self._program.wait()
            os.close(self._fd)

    def _read(self) -> str:
        try:
            return os.read(self._fd, _READ).decode(errors="replace")
        except OSError:  # the program has ended
            return ""
