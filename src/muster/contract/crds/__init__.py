"""The CustomResourceDefinitions Muster serves and installs.

Those of jobs are built from the table in `muster.contract.job_fields`; those of groups are YAML
files in this folder. `load_all` returns all of them, for the local cluster; `muster crds` prints
`as_yaml`.

Every served version of a job preserves unknown fields of spec and status, requires nothing under
spec and has one validation rule: managedBy is immutable. Without a conversion webhook the API
server only rewrites `apiVersion` and prunes by the schema of the version it reads, so a stricter
version would drop the fields of another one. The defaults of a version are in its schema.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import yaml

from kubekit.objects import yaml_reader
from muster.contract.crds import job_definitions
from muster.contract.job_kinds import JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw

PART_OF = "app.kubernetes.io/part-of"
"""The label by which Muster's own objects, its CRDs too, are told from those of others."""


def load_all() -> list[Raw]:
    """Every CustomResourceDefinition."""
    folder = resources.files(__package__)
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    documents = "---\n".join(file.read_text(encoding="utf-8") for file in files)
    groups = (crd for crd in yaml_reader.load_all(documents) if crd)
    return [_labelled(crd) for crd in (*job_definitions.build_all(), *groups)]


def immutable_fields() -> dict[str, tuple[str, ...]]:
    """By the name of a CRD, the fields that its rules are about: the local API has no CEL."""
    paths = tuple(f"spec.{path}" for path in job_definitions.IMMUTABLE_FIELDS.values())
    return {kind.resource: paths for kind in JOB_KINDS}


def _labelled(crd: Raw) -> Raw:
    return {**crd, "metadata": {**crd["metadata"], "labels": {PART_OF: "muster"}}}


def as_yaml(definitions: Iterable[Raw]) -> str:
    """Definitions as one stream of YAML documents."""
    return str(yaml.dump_all(definitions, Dumper=_Dumper, sort_keys=False, width=100))


class _Dumper(yaml.CSafeDumper):
    """YAML without anchors: versions share parts in memory, and not every reader knows anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True
