"""Write `builtin.json.gz` and `descriptions.json.gz` in `src/kubekit/schemas`.

Run it after moving to another Kubernetes version: `python -m scripts.generate_schemas`. It needs
the control plane that the tests build, and reads its `/openapi/v3`. Every type that no kind of the
local API server refers to is dropped. Descriptions go to a file of their own, because the server
needs them only for `kubectl explain`; they are texts of the Kubernetes project, under its license.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane

from localkube.apiserver.resource_registry import BUILTIN
from localkube.apiserver.views.openapi import references

FOLDER = Path(__file__).parent.parent / "src/kubekit/schemas"
LICENSE = (
    "The descriptions are copied from the API of Kubernetes. Copyright The Kubernetes Authors."
    " Licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0"
)
GVK = "x-kubernetes-group-version-kind"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
ALSO = {"Binding", "Scale", "Eviction", "TokenRequest", "DeleteOptions", "Status"}


def main() -> None:
    with ControlPlane(build(), apiserver_args=ARGUMENTS) as plane:
        definitions = fetch(plane)
        version = plane.request("GET", "/version")[1]["gitVersion"]
    types = reachable(definitions)
    texts = {name: descriptions(types[name]) for name in sorted(types)}
    # Any object; published as an object without fields.
    types[RAW_EXTENSION] |= {"x-kubernetes-preserve-unknown-fields": True}
    write("builtin.json.gz", {name: bare(types[name]) for name in sorted(types)})
    head = {"license": LICENSE, "kubernetes": version}
    write("descriptions.json.gz", {**head, "types": texts})


def write(name: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, separators=(",", ":"))
    packed = gzip.compress(text.encode(), mtime=0)
    (FOLDER / name).write_bytes(packed)
    sys.stdout.write(f"{name}: {len(text)} bytes, {len(packed)} packed\n")


# PodGroup of scheduling.k8s.io is served only when it is enabled.
ARGUMENTS = (
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    "--feature-gates=GenericWorkload=true",
)


def fetch(plane: ControlPlane) -> dict[str, Any]:
    """All published types."""
    status, index = plane.request("GET", "/openapi/v3")
    assert status == 200, index
    schemas: dict[str, Any] = {}
    for path in index["paths"].values():
        _, document = plane.request("GET", path["serverRelativeURL"])
        schemas.update(document.get("components", {}).get("schemas", {}))
    return schemas


def reachable(definitions: dict[str, Any]) -> dict[str, Any]:
    """The types of the kinds that are served, and all types they refer to."""
    missing = {(r.group, r.version, r.kind) for r in BUILTIN}
    wanted = missing | {(group, version, f"{kind}List") for group, version, kind in missing}
    todo = []
    for name, schema in definitions.items():
        kinds = {(g["group"], g["version"], g["kind"]) for g in schema.get(GVK, ())}
        if kinds & wanted or {kind for _, _, kind in kinds} & ALSO:
            todo.append(name)
            missing -= kinds
    if missing:
        sys.stderr.write(f"not published: {sorted(missing)}\n")
    types: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in types:
            types[name] = definitions[name]
            todo += references(definitions[name])
    return types


def descriptions(schema: dict[str, Any]) -> dict[str, str]:
    """The texts of a type: its own under "", and those of its fields."""
    own = {"": schema["description"]} if "description" in schema else {}
    fields = schema.get("properties", {}).items()
    return own | {name: part["description"] for name, part in fields if "description" in part}


def bare(node: Any, *, names: bool = False) -> Any:
    """A schema without descriptions. `names` is true where keys are the names of properties."""
    if isinstance(node, dict):
        return {
            key: bare(value, names=key == "properties" and not names)
            for key, value in node.items()
            if key != "description" or names
        }
    return [bare(value) for value in node] if isinstance(node, list) else node


if __name__ == "__main__":
    main()
