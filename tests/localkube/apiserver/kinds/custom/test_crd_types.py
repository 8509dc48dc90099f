"""The fast check of definitions: it accepts ours, and nothing that the walk would change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kubekit import schemas
from localkube.apiserver.kinds.custom import crd_schema, crd_types
from localkube.apiserver.kinds.custom.custom_resource import resources_of
from localkube.apiserver.schema import structural
from muster.contract import crds

Raw = dict[str, Any]
SCHEMA = schemas.for_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
DEFINITIONS = {crd["metadata"]["name"]: crd for crd in crds.load_all()}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_definition_of_ours_passes_and_the_walk_would_not_change_it(name: str) -> None:
    assert SCHEMA is not None
    crd = copy.deepcopy(DEFINITIONS[name])

    assert crd_types.is_well_typed(crd)
    assert structural.prune(crd, SCHEMA, top=True) == []
    assert [*crd_schema.check_nested_types(crd, SCHEMA)] == []
    assert crd == DEFINITIONS[name]


def _spec(crd: Raw) -> Raw:
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    field: Raw = schema["properties"]["spec"]
    return field


@pytest.mark.parametrize(
    "change",
    [
        lambda crd: crd.update(status={}),
        lambda crd: crd["metadata"].update(labels={"a": 1}),
        lambda crd: crd["spec"].update(scope=None),
        lambda crd: crd["spec"]["versions"][0].update(served="yes"),
        lambda crd: _spec(crd).update(typ="object"),
        lambda crd: _spec(crd).update(nullable="true"),
        lambda crd: _spec(crd).update(minimum=True),
        lambda crd: _spec(crd).update(items=[{"type": "string"}]),
        lambda crd: _spec(crd)["properties"].update(x={"type": None}),
        lambda crd: _spec(crd)["properties"].update(x={"additionalProperties": "no"}),
    ],
    ids=["status", "label", "null", "served", "typo", "text", "bool", "list", "inner", "no schema"],
)
def test_an_unknown_field_or_a_wrong_type_is_left_to_the_walk(
    change: Callable[[Raw], object],
) -> None:
    crd = copy.deepcopy(DEFINITIONS["tfjobs.kubeflow.org"])

    change(crd)

    assert not crd_types.is_well_typed(crd)


def test_versions_share_the_fields_in_which_they_do_not_differ() -> None:
    crd = copy.deepcopy(DEFINITIONS["tfjobs.kubeflow.org"])
    crd["status"] = {"conditions": [{"type": "Established", "status": "True"}]}

    v1, beta = (
        resource.schema["properties"]["spec"]["properties"]
        for resource in resources_of(crd)
        if resource.version in ("v1", "v1beta1")
    )

    assert v1["tfReplicaSpecs"] is beta["tfReplicaSpecs"]
    assert v1["cleanPodPolicy"] != beta["cleanPodPolicy"]
