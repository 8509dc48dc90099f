"""Namespace: its finalizer, its phase, and how it is deleted.

A namespace stays until a controller has emptied it and takes `kubernetes` off `spec.finalizers`
through the `finalize` subresource, the only writer of the spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import Causes, invalid_value
from localkube.apiserver.kinds.fields import each, ensure_map, fill
from localkube.apiserver.resource import ALL_VERBS, Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, text_at

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

_FINALIZER = "kubernetes"
"""Removed by the controller that empties the namespace."""


def _defaults(namespace: Raw) -> None:
    name = namespace["metadata"].get("name")
    if name:
        labels = ensure_map(namespace["metadata"], "labels")
        labels["kubernetes.io/metadata.name"] = name
    spec = ensure_map(namespace, "spec")
    if not spec.get("finalizers"):
        spec.pop("finalizers", None)
    fill(ensure_map(namespace, "status"), phase="Active")


def _finish_create(namespace: Raw, now: str) -> None:
    finalizers = namespace["spec"].get("finalizers") or []
    if _FINALIZER not in finalizers:
        namespace["spec"]["finalizers"] = [*finalizers, _FINALIZER]


def _finish_update(new: Raw, old: Raw, subresource: str) -> None:
    if subresource != "finalize":
        new["spec"] = old.get("spec", {})


def _check(namespace: Raw) -> Causes:
    for path, name in each(namespace.get("spec") or {}, "spec", "finalizers"):
        if name != _FINALIZER and "/" not in name:
            yield invalid_value(path, name, names.UNQUALIFIED)
    phase = (namespace.get("status") or {}).get("phase")
    being_deleted = "deletionTimestamp" in namespace["metadata"]
    only, when = ("Terminating", "not empty") if being_deleted else ("Active", "empty")
    if phase != only:
        detail = f"may only be '{only}' if `deletionTimestamp` is {when}"
        yield invalid_value("status.Phase", phase, detail)


def _on_marked(namespace: Raw) -> None:
    # Namespaces have no grace period, and the real server shows none.
    del namespace["metadata"]["deletionGracePeriodSeconds"]
    namespace["status"] = namespace.get("status", {}) | {"phase": "Terminating"}


NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", False, short=("ns",),
    verbs=ALL_VERBS - {"deletecollection"},
    subresources=frozenset({"status", "finalize"}), fields=("status.phase",),
    strategy=Strategy(
        defaults=_defaults,
        finish_create=_finish_create,
        finish_update=_finish_update,
        check=_check,
        check_name=names.check_label,
        blocks_removal=lambda namespace: bool(namespace.get("spec", {}).get("finalizers")),
        marked_first=True,
        on_marked=_on_marked,
        protected=frozenset({"default", "kube-system", "kube-public"}),
        delete_answer="object",
        storage_preconditions=True,
        columns=NAME | {"Status": text_at("status.phase")} | AGE,
    ),
)  # fmt: skip
