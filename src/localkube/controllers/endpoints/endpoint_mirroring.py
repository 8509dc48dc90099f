"""EndpointSlices that mirror Endpoints that somebody wrote by hand: pure.

Only slices lead anywhere, so the Endpoints of a service without a selector are copied to slices:
one for each set of ports and each family of addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.controllers.endpoints.endpoint_addresses import MANAGED_BY, SERVICE_NAME
from localkube.controllers.workloads import owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.core import Service
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import ObjectMeta, Raw

MANAGER = "endpointslicemirroring-controller.k8s.io"
_SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED = (
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_MAX_ENDPOINTS = 1000
"""Per subset; the controller of a real cluster mirrors no more."""


def is_mirrored(endpoints: Raw, service: Service | None) -> bool:
    """Whether these Endpoints have mirrors: their service exists and selects no pods."""
    meta = endpoints["metadata"]
    return (
        service is not None
        and not service.spec.selector
        and (meta.get("labels") or {}).get(_SKIP) != "true"
        and _LEADER not in (meta.get("annotations") or {})
        and "deletionTimestamp" not in meta
    )


def mirrors(endpoints: Raw, kind: Kind[Raw], meta: ObjectMeta) -> list[Raw]:
    """The slices of Endpoints, without names."""
    slices: dict[tuple[object, ...], Raw] = {}
    labels = endpoints["metadata"].get("labels") or {}
    annotations = endpoints["metadata"].get("annotations") or {}
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", **port} for port in subset.get("ports") or ()]
        for family, endpoint in _endpoints_of(subset):
            identity = (family, *(tuple(sorted(port.items())) for port in ports))
            mirror = slices.setdefault(
                identity,
                {
                    "metadata": {
                        "namespace": meta.namespace,
                        "generateName": "",  # an update removes it, as on a real cluster
                        "labels": {**labels, SERVICE_NAME: meta.name, MANAGED_BY: MANAGER},
                        "annotations": {
                            k: v for k, v in annotations.items() if k not in _NOT_COPIED
                        },
                        "ownerReferences": [owner_reference(kind, meta)],
                    },
                    "addressType": family,
                    "endpoints": [],
                    "ports": ports,
                },
            )
            mirror["endpoints"].append(endpoint)
    return list(slices.values())


def _endpoints_of(subset: Raw) -> Iterator[tuple[str, Raw]]:
    """The family of each address, and the address as an endpoint of a slice."""
    rows = [(row, True) for row in subset.get("addresses") or ()]
    rows += [(row, False) for row in subset.get("notReadyAddresses") or ()]
    for row, ready in rows[:_MAX_ENDPOINTS]:
        named = {k: row[k] for k in ("hostname", "nodeName", "targetRef") if row.get(k)}
        endpoint = {"addresses": [row["ip"]], "conditions": {"ready": ready}, **named}
        yield "IPv6" if ":" in row["ip"] else "IPv4", endpoint
