"""Lease: checks and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.kinds.fields import check_not_negative
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views.cells import age_of, name_of, text

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw


def _check(lease: Raw) -> api_errors.Causes:
    spec: Raw = lease.get("spec") or {}
    yield from check_not_negative(spec, "leaseTransitions")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        detail = "must be greater than 0"
        yield api_errors.invalid_value("spec.leaseDurationSeconds", duration, detail)


def _cells(lease: Raw, now: datetime) -> list[Any]:
    return [name_of(lease), text(lease, "spec.holderIdentity"), age_of(lease, now)]


LEASES = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", create_on_update=True,
    strategy=Strategy(check=_check, columns=("Name", "Holder", "Age"), cells=_cells),
)  # fmt: skip
