"""Our definitions: checked without a change, and small in memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubekit import schemas
from localkube.apiserver.kinds import definitions
from localkube.apiserver.kinds.custom_resources import resources_of
from localkube.apiserver.schema import structural
from muster.contract import crds

Raw = dict[str, Any]
SCHEMA = schemas.for_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
DEFINITIONS = {crd["metadata"]["name"]: crd for crd in crds.load_all()}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_definition_of_ours_passes_unchanged(name: str) -> None:
    assert SCHEMA is not None
    crd = copy.deepcopy(DEFINITIONS[name])

    assert structural.prune(crd, SCHEMA, top=True) == []
    assert [*definitions.check_nested_types(crd, SCHEMA)] == []
    assert crd == DEFINITIONS[name]


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
