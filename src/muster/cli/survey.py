"""One question about several kinds of jobs, some of which may not be read.

Asked by `find`. Promise: what may be read is answered; only when no kind answers is that an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from muster.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.kinds import Kind
    from muster.api.meta import Raw

T = TypeVar("T")


class Survey(Generic[T]):
    """The answers by kind; `absent` kinds know nothing of it, of `barred` ones nobody may ask."""

    def __init__(self, kinds: Sequence[Kind[Raw]], question: Callable[[Kind[Raw]], T]) -> None:
        self.answers: list[tuple[Kind[Raw], T]] = []
        self.absent: list[Kind[Raw]] = []
        self.barred: list[Kind[Raw]] = []
        refusals = []
        for kind in kinds:
            try:
                self.answers.append((kind, question(kind)))
            except NotFound:
                self.absent.append(kind)
            except Forbidden as error:
                self.barred.append(kind)
                refusals.append(error)
        if refusals and not self.answers and not self.absent:
            raise refusals[0]

    @property
    def unread(self) -> str:
        """The kinds that may not be read, by name; empty if there are none."""
        return ", ".join(kind.plural for kind in self.barred)
