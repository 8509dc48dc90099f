"""Lease: checks and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, invalid_value
from localkube.apiserver.kinds.fields import check_not_negative
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, text_at

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


def _check(lease: Raw) -> Causes:
    spec: Raw = lease.get("spec") or {}
    yield from check_not_negative(spec, "leaseTransitions")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")


LEASES = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", create_on_update=True,
    strategy=Strategy(
        check=_check, columns=NAME | {"Holder": text_at("spec.holderIdentity")} | AGE
    ),
)  # fmt: skip
