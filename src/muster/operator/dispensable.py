"""A watch that others do not wait for: what we may not list is taken for not installed.

Used by `watched` for every kind without which most jobs can be served (one kind of job, one gang
dialect, what only MPIJobs own). A right that is missing then costs those who need that kind, and
nobody else. It is logged once, told by /readyz, which does not hang on it, and tried for again and
again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from muster.errors import Forbidden
from muster.kube.informer import Informer

if TYPE_CHECKING:
    from muster.errors import MusterError

T = TypeVar("T")
log = logging.getLogger(__name__)


class Dispensable(Informer[T]):
    """An informer that counts as synced, and as empty, while its kind may not be listed."""

    lacking = ""
    """Which right is missing, in one sentence; empty if none is."""

    def _failed(self, error: MusterError) -> float:
        if not isinstance(error, Forbidden) or (self.has_synced and not self.lacking):
            return super()._failed(error)
        if not self.lacking:
            log.warning("%s; going on without", error)
        self.lacking = str(error)
        self.installed = False
        self._synced.set()
        return self._progress.failed(error)

    def _well(self) -> None:
        self.lacking = ""
        super()._well()
