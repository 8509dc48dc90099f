"""The cases: what our server must answer as the real one does. Requests only; no expectations."""

from __future__ import annotations

from tests.conformance.cases import (
    applies,
    conflicts,
    defaulted,
    definitions,
    deletion,
    empties,
    errors,
    escalation,
    events,
    formats,
    json_patches,
    kinds,
    migrations,
    naming,
    patches,
    pod_rules,
    pods,
    roles,
    selectors,
    service_rules,
    subresources,
    tables,
    validation,
    verbs,
    warned,
    watches,
    workloads,
    wrong_definitions,
)

ALL = [
    case
    for module in (
        kinds,
        empties,
        definitions,
        migrations,
        subresources,
        verbs,
        conflicts,
        naming,
        patches,
        json_patches,
        applies,
        selectors,
        pods,
        pod_rules,
        defaulted,
        formats,
        workloads,
        service_rules,
        tables,
        roles,
        deletion,
        errors,
        escalation,
        events,
        validation,
        warned,
        watches,
        wrong_definitions,
    )
    for case in module.CASES
]
