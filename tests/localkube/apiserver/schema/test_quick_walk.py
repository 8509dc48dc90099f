"""The quick walk over a written object passes only what the thorough walks leave alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from kubekit import schemas
from localkube.apiserver.schema import structural

CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "i",
    "command": ["python"],
    "env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "ports": [{"containerPort": 80}],
    "resources": {"requests": {"cpu": "1", "memory": 5, "x": 0.5}},
    "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
    "stdin": True,
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"containers": [CONTAINER], "volumes": [{"name": "v", "emptyDir": {}}]},
}
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "data": {"k": "dg=="},
}
ODD_VALUES: tuple[Any, ...] = (None, "text", 7, 5.0, 1.5, True, {}, [], {"x": 1}, [None], "1x/")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every map or list in a value, with each of its keys."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in list(parts):
        yield value, key
        if isinstance(part, dict | list):
            yield from places(part)


def is_left_alone(obj: Any, schema: schemas.Schema) -> bool:
    before = copy.deepcopy(obj)
    unknown = structural.prune(obj, schema, top=True)
    causes = structural.check(obj, schema, integral_floats=False)
    mistyped = any(cause.reason == "FieldValueTypeInvalid" for cause in causes)
    return not unknown and obj == before and not mistyped


@pytest.mark.parametrize("original", [POD, SECRET], ids=["pod", "secret"])
def test_whatever_passes_the_quick_walk_passes_the_thorough_ones(original: Any) -> None:
    schema = schemas.for_kind("", "v1", original["kind"])
    assert schema is not None
    assert structural.is_clean(original, schema)
    outcomes = set()
    for number in range(len(list(places(original)))):
        for odd in ODD_VALUES:
            obj = copy.deepcopy(original)
            holder, key = list(places(obj))[number]
            holder[key] = odd
            clean = structural.is_clean(obj, schema)
            assert not clean or is_left_alone(obj, schema), (key, odd)
            outcomes.add(clean)

    assert outcomes == {True, False}


def test_an_unknown_field_does_not_pass_the_quick_walk() -> None:
    schema = schemas.for_kind("", "v1", "Pod")
    assert schema is not None
    misspelt = copy.deepcopy(POD)
    misspelt["spec"]["containers"][0]["comand"] = ["x"]

    assert not structural.is_clean(misspelt, schema)
