"""The CRDs: fields are described, none is dropped, and `v1` is stored without defaults."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubekit import schemas
from kubekit.objects.kinds import Kind
from muster.contract import crds, job_fields
from muster.contract.crds.job_definitions import IMMUTABLE_FIELDS
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    SIGS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)
from muster.jobs.job_status import (
    Ending,
    JobFailure,
    JobRestart,
    JobStatus,
    QuotaWait,
    ReplicaFailures,
    ReplicaStatus,
    UnfinishedReplicas,
    Waiting,
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
        rules = [row["rule"] for row in section.raw.get("x-kubernetes-validations") or ()]
        is_job = crd["spec"]["group"] == "kubeflow.org"
        assert rules == (list(IMMUTABLE_FIELDS) if part == "spec" and is_job else [])
    assert "status" in version["subresources"]


@pytest.mark.parametrize("kind", JOB_KINDS, ids=lambda kind: kind.resource)
def test_v1_is_stored_and_sets_no_default(kind: Kind[Any]) -> None:
    crd = {crd["metadata"]["name"]: crd for crd in crds.load_all()}[kind.resource]
    (stored,) = [v for v in crd["spec"]["versions"] if v["storage"]]

    assert stored["name"] == "v1"
    fields = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert not [name for name, field in fields.items() if "default" in field]
    names = [column["name"] for column in stored["additionalPrinterColumns"]]
    assert names == ["State", "Age"]


JOB_VERSIONS = [
    pytest.param(version, id=f"{crd['metadata']['name']} {version['name']}")
    for crd in crds.load_all()
    if crd["spec"]["group"] == "kubeflow.org"
    for version in crd["spec"]["versions"]
]


def objects_within(schema: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every schema below, with its path."""
    inner = [(f"{path}.{name}", part) for name, part in (schema.get("properties") or {}).items()]
    for place in ("items", "additionalProperties"):
        inner += [(f"{path}[]", schema[place])] if place in schema else []
    return [row for where, part in inner for row in ((where, part), *objects_within(part, where))]


@pytest.mark.parametrize("version", JOB_VERSIONS)
def test_every_job_field_has_a_type_and_a_description_and_keeps_fields_within(version: Any) -> None:
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    fields = {part: dict(objects_within(properties[part], part)) for part in ("spec", "status")}
    within = {**fields["spec"], **fields["status"]}

    assert "spec.runPolicy.schedulingPolicy.queue" in within
    assert ("status.conditions[].type" in within) == version["storage"]
    for path, field in within.items():
        free = {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"}
        assert field.get("type") or free & field.keys(), path
        assert field.get("description") or path.endswith("[]"), path
        if field.get("type") == "object" and "additionalProperties" not in field:
            assert field.get("x-kubernetes-preserve-unknown-fields"), f"{path} would be pruned"
        assert not {"enum", "pattern", "minimum", "maximum", "format", "required"} & field.keys()
    templates = [field for path, field in within.items() if path.endswith(".template")]
    assert templates
    assert not [field for field in templates if "properties" in field]


@pytest.mark.parametrize("crd", crds.load_all(), ids=lambda crd: crd["metadata"]["name"])
def test_kubectl_apply_can_annotate_a_definition_with_itself(crd: Any) -> None:
    assert len(json.dumps(crd)) < 250_000, "annotations hold 256 KiB"


def test_every_field_of_a_status_is_described() -> None:
    fields = job_fields.STATUS_FIELDS
    described: list[tuple[type[msgspec.Struct], Any]] = [
        (JobStatus, fields),
        (ReplicaStatus, fields["replicaStatuses"]["additionalProperties"]["properties"]),
        (ReplicaFailures, fields["failures"]["additionalProperties"]["properties"]),
        (Waiting, fields["waiting"]["properties"]),
        (QuotaWait, fields["waiting"]["properties"]["quota"]["properties"]),
        (JobFailure, fields["failure"]["properties"]),
        (Ending, fields["failure"]["properties"]["first"]["properties"]),
        (JobRestart, fields["restart"]["properties"]),
        (UnfinishedReplicas, fields["unfinished"]["properties"]),
    ]
    for struct, known in described:
        assert {field.encode_name for field in msgspec.structs.fields(struct)} <= known.keys()


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
