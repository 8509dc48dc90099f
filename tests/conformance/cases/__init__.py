"""The cases: what our server must answer as the real one does. Requests only; no expectations."""

from __future__ import annotations

from tests.conformance.cases import (
    conflicts,
    deletion,
    errors,
    patches,
    pods,
    selectors,
    verbs,
    watches,
)

ALL = [
    case
    for module in (verbs, conflicts, patches, selectors, pods, deletion, errors, watches)
    for case in module.CASES
]
