"""ReplicaSet: defaults, checks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.kinds.fields import check_not_negative, ensure_map, fill
from muster.local.apiserver.kinds.pod_template import (
    COLUMNS,
    check_selector,
    check_template,
    complete_template,
    template_cells,
)
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views.cells import age_of, name_of, number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


def _defaults(replica_set: Raw) -> None:
    complete_template(fill(ensure_map(replica_set, "spec"), replicas=1))
    fill(replica_set, status={"replicas": 0})


def _check(replica_set: Raw) -> Iterator[Cause]:
    spec: Raw = replica_set["spec"]
    yield from check_not_negative(spec, "replicas", "minReadySeconds")
    yield from check_selector(spec)
    yield from check_template(spec)


def _cells(replica_set: Raw, now: datetime) -> list[Any]:
    return [
        name_of(replica_set),
        number(replica_set, "spec.replicas"),
        number(replica_set, "status.replicas"),
        number(replica_set, "status.readyReplicas"),
        age_of(replica_set, now),
        *template_cells(replica_set),
    ]


REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=("all",),
    subresources=frozenset({"status", "scale"}), fields=("status.replicas",),
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        immutable=("spec.selector",),
        generation="spec",
        columns=("Name", "Desired", "Current", "Ready", "Age", *COLUMNS),
        cells=_cells,
    ),
)  # fmt: skip
