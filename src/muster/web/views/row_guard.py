"""Rows of pages: an object of which no row can be made does not hide the others.

Views are written so that no object makes them fail, and tests try hard. This is for what nobody
foresaw: one user's object must not take a page away from all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
log = logging.getLogger(__name__)

NOT_SHOWN = "it cannot be shown because of a bug in Muster; the log of the dashboard shows where"
"""Stands in the row of such an object."""
_MAX_LOGGED, _MAX_NAME = 100, 300
_logged: set[tuple[str, int]] = set()
"""The places in the code whose errors are in the log: each once, a page is made every second."""


def guarded(make: Callable[[], T], instead: Callable[[], T], about: object) -> T:
    """The row that `make` makes; if that is impossible, the row `instead`."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - a bug: the page goes on without this row
        _log_once(str(about)[:_MAX_NAME], error)
        return instead()


def _log_once(name: str, error: Exception) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace else ("", 0)
    if place not in _logged and len(_logged) < _MAX_LOGGED:
        _logged.add(place)
        log.error("please report this: %s cannot be shown", name, exc_info=error)
