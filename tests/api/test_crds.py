"""The CRDs: no version drops the fields of another, and `v1` is stored without defaults."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import crds, schemas
from muster.api.kinds import (
    COSCHEDULING_POD_GROUPS,
    JOB_KINDS,
    KUBE_BATCH_POD_GROUPS,
    SIGS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Kind,
)

GROUPS: tuple[Kind[Any], ...] = (
    VOLCANO_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    SIGS_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
)


def versions() -> list[Any]:
    return [
        pytest.param(crd, version, id=f"{crd['metadata']['name']} {version['name']}")
        for crd in crds.load_all()
        for version in crd["spec"]["versions"]
    ]


@pytest.mark.parametrize("kind", [*JOB_KINDS, *GROUPS], ids=lambda kind: kind.resource)
def test_every_kind_in_use_is_defined_in_its_version(kind: Kind[Any]) -> None:
    crd = {crd["metadata"]["name"]: crd for crd in crds.load_all()}[kind.resource]

    assert crd["spec"]["names"]["kind"] == kind.kind
    assert kind.version in [v["name"] for v in crd["spec"]["versions"] if v["served"]]


@pytest.mark.parametrize(("crd", "version"), versions())
def test_no_version_drops_the_fields_of_another(crd: Any, version: Any) -> None:
    schema = schemas.Schema(version["schema"]["openAPIV3Schema"])
    for part in ("spec", "status"):
        section = schema.field(part)
        assert section is not None
        assert section.preserves
        assert "required" not in section.raw
        assert "x-kubernetes-validations" not in section.raw
    assert "status" in version["subresources"]


@pytest.mark.parametrize("kind", JOB_KINDS, ids=lambda kind: kind.resource)
def test_v1_is_stored_and_sets_no_default(kind: Kind[Any]) -> None:
    crd = {crd["metadata"]["name"]: crd for crd in crds.load_all()}[kind.resource]
    (stored,) = [v for v in crd["spec"]["versions"] if v["storage"]]

    assert stored["name"] == "v1"
    assert "properties" not in stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
    names = [column["name"] for column in stored["additionalPrinterColumns"]]
    assert names == ["State", "Age"]


def test_no_category_hides_a_resource_of_its_name() -> None:
    names = [crd["spec"]["names"] for crd in crds.load_all()]
    categories = {category for row in names for category in row.get("categories", ())}
    assert categories == {"all"}, "with a category `jobs`, `kubectl get jobs` shows no batch Job"


def test_schemas_know_which_lists_merge_by_which_key() -> None:
    pod = schemas.for_kind("", "v1", "Pod")
    assert pod is not None
    spec = pod.field("spec")
    assert spec is not None
    containers = spec.field("containers")
    assert containers is not None

    assert (containers.merges, containers.merge_key) == (True, "name")
    assert schemas.for_kind("", "v1", "Nonsense") is None
