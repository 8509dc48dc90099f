"""What the server refuses, said once in the log however many objects it concerns.

Used by the reporter and by `takedown`. A missing right is a verb on a resource: what one pod is
refused, the next one will be too, and one line says it. Any other refusal is known by its words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

    from muster.errors import MusterError

_RULE = re.compile(r"not allowed to (\S+ \S+)")


class Refused:
    """What was refused so far."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._known = log, set[str]()

    def warn(self, error: MusterError) -> None:
        """Say it, unless the same was refused before."""
        found = _RULE.search(str(error))
        rule = found[1] if found is not None else str(error)
        if rule not in self._known:
            self._known.add(rule)
            self._log.warning("%s", error)
