"""Several things done by one command, of which some fail: all are tried, and the end is true.

Used by every verb that takes several names or objects. A cluster that is away ends the command at
once: it would be away for the rest as well.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from muster.cli.show.messages import note
from muster.errors import MusterError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator


class Failures:
    def __init__(self) -> None:
        self.errors: list[MusterError] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What fails in this block is told at the end, and the command goes on."""
        try:
            yield
        except Unreachable:
            raise
        except MusterError as error:
            self.errors.append(error)

    def end(self, count: int, what: str) -> None:
        """End as the failures tell: with nothing if there are none, else with an error.

        All but the last are printed, the last ends the program; if they are of several sorts, all
        are printed and their number ends it with 1.
        """
        if not self.errors:
            return
        *others, last = self.errors
        if len({error.exit_code for error in self.errors}) > 1:
            others = self.errors
            last = MusterError(f"{len(self.errors)} of {count} {what} failed")
        for error in others:
            note(f"error: {error}", "error")
            if error.hint:
                note(error.hint, "error")
        raise last
