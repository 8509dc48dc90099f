"""Objects of a cluster as pages show them: pure functions, one module per page.

Views are written so that no object makes them fail, and tests try hard. `guarded` and `row_of` are
for what nobody foresaw: one user's object must not take a page away from all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kubekit.telemetry import unexpected_errors

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NOT_SHOWN = "it cannot be shown because of a bug in Muster; the log of the dashboard shows where"
"""Stands in the row of such an object."""


def guarded(make: Callable[[], T], instead: Callable[[], T], about: object) -> T:
    """The row that `make` makes; if that is impossible, the row `instead`."""
    with row_of(about):
        return make()
    return instead()


def row_of(about: object) -> unexpected_errors.isolated:
    """Leave an object out of what many make together, if it cannot be counted in."""
    return unexpected_errors.isolated("dashboard row", about)
