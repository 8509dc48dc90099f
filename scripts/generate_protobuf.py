"""Write `src/kubekit/schemas/protobuf.json.gz`: the protobuf layout of built-in kinds.

Run it after moving to another Kubernetes version: `python -m scripts.generate_protobuf`. It reads
the `generated.proto` and `types.go` files of the modules that the control plane is built from. The
former give numbers and types; only the latter say which fields are pointers (whose zero means
something), which are inline in JSON, and which are omitted there when empty.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.controlplane.pin_versions import MODULES

from kubekit import schemas

TARGET = Path(__file__).parent.parent / "src/kubekit/schemas/protobuf.json.gz"
ENTRY = re.compile(
    r"^\s+(optional|repeated|map)\s*(?:<(\w+),\s*([\w.]+)>|([\w.]+))\s+(\w+)\s*=\s*(\d+)"
)
FIELD = re.compile(
    r'^\s+(?:\w+\s+)?(\*?)[\w.\[\]*]+\s+`json:"([^"]*)"(?: [^`]*)? protobuf:"\w+,(\d+),'
)


def main() -> None:
    kinds = {name for name in schemas.definitions() if not name.endswith("JSONSchemaProps")}
    table: dict[str, Any] = {}
    for module in ("k8s.io/api", "k8s.io/apimachinery"):
        root = folder(module)
        for proto in sorted(root.rglob("generated.proto")):
            package, messages = read_proto(proto)
            go = read_go(proto.parent)
            for message, fields in messages.items():
                mark(fields, go.get(message, {}))
                table[f"{package}.{message}"] = fields
    messages = reachable(
        table, {openapi_name(name) for name in table if openapi_name(name) in kinds}
    )
    packed = json.dumps({n: messages[n] for n in sorted(messages)}, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(packed.encode(), mtime=0))
    sys.stdout.write(f"{len(messages)} messages, {TARGET.stat().st_size} bytes packed\n")


def folder(module: str) -> Path:
    """The folder with the sources of a module."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    result = subprocess.run(
        command, cwd=MODULES / "kubernetes", check=True, capture_output=True, text=True
    )
    return Path(result.stdout.strip())


def openapi_name(message: str) -> str:
    """`k8s.io.api.core.v1.Pod` is published as `io.k8s.api.core.v1.Pod`."""
    return message.replace("k8s.io.", "io.k8s.", 1)


def read_proto(path: Path) -> tuple[str, dict[str, dict[str, list[Any]]]]:
    """The package and its messages: number -> [name, type, shape]; `mark` adds the rest."""
    package, message = "", ""
    messages: dict[str, dict[str, list[Any]]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("package "):
            package = line.split()[1].rstrip(";")
        elif line.startswith("message "):
            message = line.split()[1]
            messages[message] = {}
        elif match := ENTRY.match(line):
            label, _, of, plain, name, number = match.groups()
            type_ = full(of or plain, package)
            messages[message][number] = [name, type_, label[0]]
    return package, messages


def full(type_: str, package: str) -> str:
    if type_.startswith("."):
        return type_[1:]
    return type_ if type_.islower() or type_[0].islower() else f"{package}.{type_}"


Marks = tuple[str, bool, bool, bool]
"""The name of a field in JSON, and whether it is a pointer, is inline, is omitted when empty."""


def read_go(place: Path) -> dict[str, dict[str, Marks]]:
    """struct -> protobuf number -> marks."""
    structs: dict[str, dict[str, Marks]] = {}
    for path in place.glob("*types*.go"):
        struct = ""
        for line in path.read_text().splitlines():
            if opened := re.match(r"^type (\w+) struct", line):
                struct = opened[1]
            elif struct and (match := FIELD.match(line)):
                inline = match[2] in (",inline", "") or match[2].startswith(",inline")
                name = match[2].partition(",")[0]
                marks = (name, bool(match[1]), inline, "omitempty" in match[2])
                structs.setdefault(struct, {})[match[3]] = marks
    return structs


def mark(fields: dict[str, list[Any]], go: dict[str, Marks]) -> None:
    for number, field in fields.items():
        name, *marks = go.get(number, ("", False, False, False))
        # A few messages spell it differently; "-" is a field that JSON does not have.
        field[0] = field[0] if name in ("", "-") else name
        field += map(int, marks)


def reachable(table: dict[str, Any], published: set[str]) -> dict[str, Any]:
    todo = [name for name in table if openapi_name(name) in published]
    messages: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name in table and name not in messages:
            messages[name] = table[name]
            todo += [field[1] for field in table[name].values()]
    return messages


if __name__ == "__main__":
    main()
