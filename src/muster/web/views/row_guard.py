"""Rows of pages: an object of which no row can be made does not hide the others.

Views are written so that no object makes them fail, and tests try hard. This is for what nobody
foresaw: one user's object must not take a page away from all.

Kept apart because every view needs it, and because views read no clock: the app hands in what
counts and logs such an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NOT_SHOWN = "it cannot be shown because of a bug in Muster; the log of the dashboard shows where"
"""Stands in the row of such an object."""
handlers: list[Callable[[str, object, Exception], None]] = []
"""Called with `dashboard row`, the object and the error."""


def guarded(make: Callable[[], T], instead: Callable[[], T], about: object) -> T:
    """The row that `make` makes; if that is impossible, the row `instead`."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - a bug: the page goes on without this row
        for handle in handlers:
            handle("dashboard row", about, error)
        return instead()
