"""Writes that the API server rejects: logged once for each rule, and told to the gang concerned.

A missing RBAC rule concerns a verb on a resource, not one pod, so the log has it once. The gang
gets an event with the same sentence that `muster doctor` prints; the recorder of events makes one
Event with a count of repetitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import Forbidden, MusterError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable

    from kubekit.objects.core import Pod
    from kubekit.rights import MissingRight
    from muster.contract.gang import GangKey

    ReportRight = Callable[[GangKey, Iterable[Pod], MissingRight], None]


def report_to_nobody(gang: GangKey, pods: Iterable[Pod], missing: MissingRight) -> None:
    """For callers whose gangs nobody reads about."""


class Refusals:
    """The rejections that one part of the scheduler has met.

    `report` gets the gang, pods of it and a right that is missing.
    """

    def __init__(self, log: logging.Logger, report: ReportRight = report_to_nobody) -> None:
        self._log, self._report, self._known = log, report, set[str]()

    def take(self, error: MusterError, gang: GangKey | None, pods: Iterable[Pod] = ()) -> None:
        """Log an error unless the same rule was missing before; tell the gang, if one is given."""
        missing = error.missing_right
        action = error.action if isinstance(error, Forbidden) else ""
        about = str(missing or action or error)
        if about not in self._known:
            self._known.add(about)
            self._log.warning("%s", error)
        if missing and gang is not None:
            self._report(gang, pods, missing)
