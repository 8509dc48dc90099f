"""StorageClass: defaults and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.kinds.fields import fill
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, fields, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _defaults(storage_class: Raw) -> None:
    fill(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _name(storage_class: Raw, now: datetime) -> str:
    default = fields(storage_class, "metadata.annotations").get(_DEFAULT) == "true"
    return text(storage_class, "metadata.name") + (" (default)" if default else "")


STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short=("sc",),
    strategy=Strategy(
        defaults=_defaults,
        immutable=("provisioner", "parameters"),
        delete_answer="object",
        columns={
            "Name": _name,
            "Provisioner": text_at("provisioner"),
            "ReclaimPolicy": text_at("reclaimPolicy", "Delete"),
            "VolumeBindingMode": text_at("volumeBindingMode", "Immediate"),
            "AllowVolumeExpansion": lambda sc, now: bool(sc.get("allowVolumeExpansion")),
        } | AGE,
    ),
)  # fmt: skip
