"""Whether a label selector that stands in an object chooses these labels.

Pure; used for deployments, disruption budgets and roles that are made of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.api.affinity import LabelSelector
from muster.api.selectors import from_labels
from muster.errors import InvalidSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.meta import Raw


def chooses(selector: Raw, labels: Mapping[str, str]) -> bool:
    """A selector that makes no sense chooses nothing."""
    try:
        return from_labels(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (InvalidSelector, msgspec.ValidationError):
        return False
