"""Reading manifests: files, folders or standard input -> objects that could be sent.

YAML (several documents), JSON and lists of objects are understood. Nothing is dropped silently: a
key written twice is an error. Values that JSON cannot express, such as dates, stay text. An object
that no cluster would accept is rejected here, with a hint about the fix.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml

from kubekit.errors import UsageError
from kubekit.objects import yaml_reader
from muster.contract.job_kinds import JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.objects.meta import Raw
    from kubekit.objects.yaml_reader import Limits

SUFFIXES = (".yaml", ".yml", ".json")
_OWN_FILE = yaml_reader.OWN_FILE
_NOT_SPACE = re.compile(r"\S")

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_ANY = (re.compile(rf"{_LABEL}(\.{_LABEL})*"), 253, "lower-case letters, digits, '-' and '.'")
_DNS = (re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"), 63, "lower-case letters, digits and '-'")
_PLAIN = (re.compile(_LABEL), 63, "lower-case letters, digits and '-'")
_BY_KIND = {
    "Namespace": _PLAIN,
    "Service": _DNS,
    **dict.fromkeys((kind.kind for kind in JOB_KINDS), _DNS),
}


def texts(place: str, stdin: TextIO, *, recursive: bool = False) -> Iterator[tuple[str, str]]:
    """Every file's name and text; `-` is standard input, a folder stands for its manifests."""
    if place == "-":
        yield "standard input", stdin.read(_OWN_FILE.size + 1)
        return
    if "://" in place:
        raise UsageError(
            f"{place}: addresses are not fetched", hint=f"curl -sSL {place} | arena apply -f -"
        )
    path = Path(place)
    if path.is_dir():
        paths = sorted(path.rglob("*") if recursive else path.iterdir())
        files = [file for file in paths if file.suffix in SUFFIXES and file.is_file()]
        if not files:
            raise UsageError(f"{place}: no {', '.join(SUFFIXES)} file is there")
    else:
        files = [path]
    for file in files:
        yield str(file), _text(file)


def _text(file: Path) -> str:
    try:
        # No more than will be accepted: `/dev/zero` has no end.
        with file.open(encoding="utf-8") as text:
            return text.read(_OWN_FILE.size + 1)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not UTF-8 text") from None


def documents(text: str, source: str, limits: Limits = _OWN_FILE) -> list[Any]:
    """The documents of a text that are not empty."""
    try:
        # YAML contains JSON, but not several JSON documents one after the other.
        items = _json_stream(text, limits) if text.lstrip()[:1] == "{" else None
        if items is None:
            items = yaml_reader.load_all(text, Loader, limits)
    except yaml_reader.YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise UsageError(f"{source}{line}: {error.problem}") from None
    except RecursionError:
        raise UsageError(f"{source}: it is nested deeper than {limits.depth} levels") from None
    except ValueError as error:
        raise UsageError(f"{source}: cannot be read: {error}") from None
    return [document for document in items if document is not None]


def _check_json(items: list[Any], limits: Limits) -> None:
    count, pending = 0, [(document, 0) for document in items]
    while pending:
        node, depth = pending.pop()
        count += 1
        if depth > limits.depth:
            raise RecursionError
        if count > limits.values:
            raise ValueError(f"it has more than {limits.values:,} values")
        if isinstance(node, dict):
            pending += [(value, depth + 1) for value in node.values()]
        elif isinstance(node, list):
            pending += [(value, depth + 1) for value in node]


def _json_stream(text: str, limits: Limits) -> list[Any] | None:
    """One JSON document after another, or None: a text that begins with `{` may still be YAML."""
    if len(text) > limits.size:
        raise ValueError(f"it is larger than {limits.size >> 10} kB")
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    items, position = [], 0
    while start := _NOT_SPACE.search(text, position):
        try:
            document, position = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError:
            return None
        items.append(document)
    _check_json(items, limits)
    return items


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {counts.most_common(1)[0][0]!r} is written twice")
    return mapping


class Loader(yaml_reader.SafeLoader):  # type: ignore[misc]
    """YAML as Kubernetes reads it: keys are text and appear once; a date is text."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._flat: set[int] = set()

    def flatten_mapping(self, node: Any) -> None:
        """Check the mapping's own keys before `<<` adds keys that they may override."""
        if id(node) not in self._flat:
            self._flat.add(id(node))
            seen = set()
            for key, _ in node.value:
                written = (key.tag, str(key.value))
                if written in seen:
                    raise _twice(key.value, key.start_mark)
                seen.add(written)
        super().flatten_mapping(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        text_keys = {_key(key): value for key, value in mapping.items()}
        if len(text_keys) < len(mapping):
            raise _twice(
                "that is a number or a word in one place and text in another", node.start_mark
            )
        return text_keys


def _twice(key: str, mark: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, f"the key {key} is written twice", mark)


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml_reader.SafeLoader.yaml_implicit_resolvers.items()
}


def objects(document: object, source: str) -> Iterator[Raw]:
    """The objects of a document: itself, or the items of a list."""
    if not isinstance(document, dict):
        raise UsageError(f"{source}: not a Kubernetes object", hint="It needs apiVersion and kind.")
    kind, version = document.get("kind"), document.get("apiVersion")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        item_kind = {} if kind == "List" else {"apiVersion": version, "kind": kind[:-4]}
        for item in document["items"]:
            yield from objects({**item_kind, **item} if isinstance(item, dict) else item, source)
        return
    yield document


def as_list(items: Sequence[Raw]) -> Raw:
    """The objects as one `List`."""
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": list(items)}


def check(item: Raw, source: str, *, generate: bool) -> None:
    """Refuse an object that cannot be sent: without kind or name, or with an invalid name."""
    for field in ("apiVersion", "kind"):
        if not isinstance(item.get(field), str) or not item[field]:
            hint = f"Begin with `{field}: …`."
            if field == "apiVersion" and "name" in item and "metadata" not in item:
                hint = "It looks like the short form of a job, which `arena submit -f FILE` reads."
            raise UsageError(f"{source}: {field} is missing", hint=hint)
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        raise UsageError(f"{source}: {item['kind']}: metadata.name is missing")
    name = metadata.get("name")
    if name is None and metadata.get("generateName"):
        if generate:
            return
        raise UsageError(
            f"{source}: {item['kind']}: apply needs metadata.name, not generateName",
            hint="`arena create -f` takes generateName.",
        )
    if not isinstance(name, str) or not name:
        wrong = "is missing" if name in (None, "") else f"{name!r} is not text; quote it"
        raise UsageError(f"{source}: {item['kind']}: metadata.name {wrong}")
    namespace = metadata.get("namespace")
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise UsageError(f"{source}: {item['kind']} {name}: metadata.namespace is not a name")
    check_name(item, name, source)


def check_name(item: Raw, name: str, source: str) -> None:
    """Refuse a name that is invalid for the kind; the hint is a similar valid name."""
    if item["apiVersion"].startswith("rbac.authorization.k8s.io/"):
        return  # Kubernetes allows any name for roles and bindings: `system:node`
    pattern, longest, allowed = _BY_KIND.get(item["kind"], _ANY)
    if pattern.fullmatch(name) and len(name) <= longest:
        return
    if len(name) > longest:
        wrong, hint = f"has {len(name)} characters", f"At most {longest} are allowed."
    else:
        wrong, hint = "is not possible", f"Use {allowed}."
        better = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.")
        if pattern.fullmatch(better):
            hint = f"Use {better} ({allowed})."
    raise UsageError(f"{source}: {item['kind']}: the name {name!r} {wrong}", hint=hint)
