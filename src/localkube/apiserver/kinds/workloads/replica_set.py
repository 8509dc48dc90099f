"""ReplicaSet: defaults, checks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.kinds.fields import check_not_negative, ensure_map, fill
from localkube.apiserver.kinds.pods.pod_template import (
    COLUMNS,
    check_selector,
    check_template,
    complete_template,
)
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, number_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.api_errors import Cause


def _defaults(replica_set: Raw) -> None:
    complete_template(fill(ensure_map(replica_set, "spec"), replicas=1))
    fill(replica_set, status={"replicas": 0})


def _check(replica_set: Raw) -> Iterator[Cause]:
    spec: Raw = replica_set["spec"]
    yield from check_not_negative(spec, "replicas", "minReadySeconds")
    yield from check_selector(spec)
    yield from check_template(spec)


REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=("all",),
    subresources=frozenset({"status", "scale"}), fields=("status.replicas",),
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        immutable=("spec.selector",),
        generation="spec",
        columns=NAME | {
            "Desired": number_at("spec.replicas"),
            "Current": number_at("status.replicas"),
            "Ready": number_at("status.readyReplicas"),
        } | AGE | COLUMNS,
    ),
)  # fmt: skip
