"""All objects of an installation, in the order in which they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.contract import crds
from muster.install.objects import roles, workloads
from muster.install.objects.admission import policy

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.install.objects.values import Values


def build(values: Values, namespace: str) -> list[Raw]:
    """Every object: the namespace, the CRDs, then each component's."""
    return [
        namespace_of(values, namespace),
        *crds.load_all(),
        *components(values, namespace),
    ]


def namespace_of(values: Values, name: str) -> Raw:
    """The namespace of the components; where jobs run too, pods are not restricted."""
    restricted = name != values.operator.watch_namespace
    security = {"pod-security.kubernetes.io/enforce": "restricted"} if restricted else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**roles.labels(), **security}},
    }


def components(values: Values, namespace: str) -> list[Raw]:
    """The objects of the components, without the namespace and the CRDs."""
    objects: list[Raw] = []
    # For one namespace there are none: these are objects of the whole cluster.
    if not values.operator.watch_namespace:
        objects += roles.user_roles() if values.operator.enabled else ()
        objects += roles.dashboard_roles() if values.dashboard.enabled else ()
        objects += policy.build() if values.operator.enabled and values.admission_policy else ()
    for component in values.components:
        objects += roles.build(component, values, namespace)
        objects += workloads.build(component, values, namespace)
    return objects
