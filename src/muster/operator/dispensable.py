"""A watch that others do not wait for: what we may not list is taken for not installed.

Used by `watched` for every kind without which most jobs can be served (one kind of job, one gang
dialect, what only MPIJobs own). A right that is missing then costs those who need that kind, and
nobody else. It is logged, stands in the health report and is tried for again and again.
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

    def _failed(self, error: MusterError) -> float:
        pause = super()._failed(error)
        if isinstance(error, Forbidden) and not self.has_synced:
            log.warning("%s: may not be listed; going on without it", self.kind.resource)
            self.installed = False
            self._synced.set()
        return pause
