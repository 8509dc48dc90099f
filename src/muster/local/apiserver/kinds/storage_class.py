"""StorageClass: defaults and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.kinds.fields import fill
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views.cells import age_of, fields, name_of, text

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _defaults(storage_class: Raw) -> None:
    fill(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _cells(storage_class: Raw, now: datetime) -> list[Any]:
    default = fields(storage_class, "metadata.annotations").get(_DEFAULT) == "true"
    return [
        name_of(storage_class) + (" (default)" if default else ""),
        text(storage_class, "provisioner"),
        text(storage_class, "reclaimPolicy", "Delete"),
        text(storage_class, "volumeBindingMode", "Immediate"),
        bool(storage_class.get("allowVolumeExpansion")),
        age_of(storage_class, now),
    ]


STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short=("sc",),
    strategy=Strategy(
        defaults=_defaults,
        immutable=("provisioner", "parameters"),
        delete_answer="object",
        columns=(
            "Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion",
            "Age",
        ),
        cells=_cells,
    ),
)  # fmt: skip
