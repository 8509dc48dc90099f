"""The cases: what our server must answer as the real one does. Requests only; no expectations."""

from __future__ import annotations

from tests.conformance.cases import (
    applies,
    conflicts,
    definitions,
    deletion,
    errors,
    escalation,
    events,
    kinds,
    migrations,
    naming,
    patches,
    pods,
    roles,
    selectors,
    subresources,
    tables,
    validation,
    verbs,
    watches,
    wrong_definitions,
)

ALL = [
    case
    for module in (
        kinds,
        definitions,
        migrations,
        subresources,
        verbs,
        conflicts,
        naming,
        patches,
        applies,
        selectors,
        pods,
        tables,
        roles,
        deletion,
        errors,
        escalation,
        events,
        validation,
        watches,
        wrong_definitions,
    )
    for case in module.CASES
]
