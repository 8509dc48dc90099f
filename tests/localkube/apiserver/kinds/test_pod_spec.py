"""Texts in a pod that no program and no path can have."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from localkube.apiserver.kinds.pod_spec import check_pod_spec

SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "a:1",
            "command": ["true", r"\u0000"],
            "env": [{"name": "E", "value": "x"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
        }
    ],
    "volumes": [{"name": "v", "hostPath": {"path": "/srv"}}],
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
}


@pytest.mark.parametrize(
    "field",
    [
        "spec.containers[0].volumeMounts[0].mountPath",
        "spec.containers[0].volumeMounts[0].subPath",
        "spec.containers[0].command[1]",
        "spec.containers[0].env[0].value",
        "spec.volumes[0].hostPath.path",
    ],
)
def test_a_nul_character_is_refused_with_its_field(field: str) -> None:
    spec = copy.deepcopy(SPEC)
    at: Any = {"spec": spec}
    *parents, last = field.replace("[", ".").replace("]", "").split(".")
    for name in parents:
        at = at[int(name)] if name.isdigit() else at[name]
    at[int(last) if last.isdigit() else last] += "\0rest"

    (cause,) = check_pod_spec(spec, "spec")

    assert cause.field == field
    assert "must not contain the NUL character" in cause.message


def test_an_escaped_nul_in_a_text_is_ordinary_text() -> None:
    assert list(check_pod_spec(SPEC, "spec")) == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../../../../tmp/x", "must not contain '..'"),
        ("/etc/passwd", "must be a relative path"),
        ("..data", "must not start with '..'"),
    ],
)
@pytest.mark.parametrize("source", ["configMap", "secret", "downwardAPI", "projected"])
def test_a_file_of_a_volume_stays_in_it(source: str, path: str, problem: str) -> None:
    item = {"key": "k", "path": path, "fieldRef": {"fieldPath": "metadata.name"}}
    name = "secretName" if source == "secret" else "name"
    volume: dict[str, Any] = {source: {name: "n", "items": [item]}}
    field = f"spec.volumes[0].{source}.items[0].path"
    if source == "downwardAPI":
        field = "spec.volumes[0].downwardAPI.path"
    if source == "projected":
        volume = {"projected": {"sources": [{"configMap": {"name": "n", "items": [item]}}]}}
        field = "spec.volumes[0].projected.sources[0].configMap.items[0].path"
    spec = SPEC | {"volumes": [{"name": "v", **volume}]}

    (cause,) = check_pod_spec(spec, "spec")

    assert cause.field == field
    assert problem in cause.message
