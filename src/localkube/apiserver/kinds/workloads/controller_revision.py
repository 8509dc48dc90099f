"""ControllerRevision: a former state of a workload, which a rollback returns to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, invalid_value, required
from localkube.apiserver.kinds.fields import NOT_NEGATIVE
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, NONE, number_at, rows, text

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw


def _check(revision: Raw) -> Causes:
    if revision.get("data") is None:
        yield required("data", "data is mandatory")
    number = revision.get("revision") or 0
    if number < 0:
        yield invalid_value("revision", number, NOT_NEGATIVE)


def _controller(revision: Raw, now: datetime) -> str:
    for owner in rows(revision, "metadata.ownerReferences"):
        if owner.get("controller"):
            group = text(owner, "apiVersion").partition("/")[0]
            return f"{text(owner, 'kind').lower()}.{group}/{text(owner, 'name')}"
    return NONE


CONTROLLER_REVISIONS = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision",
    strategy=Strategy(
        check=_check,
        immutable=("data",),
        columns=NAME | {"Controller": _controller, "Revision": number_at("revision")} | AGE,
    ),
)  # fmt: skip
