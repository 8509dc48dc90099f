"""Schemas of built-in kinds: which parts may hold quantities."""

from __future__ import annotations

from kubekit import schemas


def test_a_schema_knows_whether_a_quantity_may_be_inside() -> None:
    pod = schemas.for_kind("", "v1", "Pod")
    assert pod is not None
    meta, spec = pod.field("metadata"), pod.field("spec")

    assert spec is not None
    assert meta is not None
    assert spec.has_quantities
    assert not meta.has_quantities


def test_a_schema_within_itself_has_no_quantities() -> None:
    definition = schemas.for_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

    assert definition is not None
    assert not definition.has_quantities
