"""Request bodies: bytes of a declared type -> an object, and the fields that a body has twice.

Nothing a client sends gets past here undecoded: bad UTF-8, broken JSON, endless nesting and foreign
protobuf all end as a 400. Of a field that is written twice the last one counts, with a warning.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml

from muster.errors import StatusError
from muster.local.apiserver.api_errors import bad_request, unsupported_media, unsupported_patch
from muster.local.apiserver.http import protobuf
from muster.local.apiserver.http.protobuf import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.http.requests import Call


LIMIT = 3 * 1024 * 1024
_DEPTH = 512
_JSON = "application/json"
YAML = "application/yaml"
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def _as_integer(number: float) -> float:
    return int(number) if number.is_integer() else number


_JSON_DECODER = msgspec.json.Decoder()
_INTEGERS = msgspec.json.Decoder(float_hook=lambda text: _as_integer(float(text)))


class _Loader(yaml.CSafeLoader):
    """YAML without dates: to Kubernetes a date without quotes is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return _as_integer(loader.construct_yaml_float(node))


_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def media_type(content_type: str) -> str:
    """The type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def read(body: bytes, content_type: str) -> Raw:
    """The object in a create, update or delete request."""
    kind = media_type(content_type) or _JSON
    if kind == protobuf.MEDIA_TYPE:
        return protobuf.read(body)
    if kind not in (_JSON, YAML):
        raise unsupported_media((_JSON, YAML, protobuf.MEDIA_TYPE))
    return _object(parse_yaml(body) if kind == YAML else parse_json(body))


def read_patch(body: bytes, content_type: str, accepted: tuple[str, ...]) -> Any:
    """The patch in a patch request: an object, or a list for JSON patch."""
    kind = media_type(content_type)
    if kind not in accepted:
        raise unsupported_media(accepted) if kind in PATCHES else unsupported_patch()
    if kind == PATCHES[0]:
        return parse_json(body)
    if kind.endswith("yaml"):
        return _object(parse_yaml(body))
    change = parse_json(body, integers="strategic" in kind)
    return {} if change is None and "strategic" in kind else _object(change)


def parse_json(body: bytes, *, integers: bool = False) -> Any:
    """JSON of sane depth; with `integers`, 5.0 is 5, as in YAML and in strategic patches."""
    try:
        value = (_INTEGERS if integers else _JSON_DECODER).decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"the body cannot be read as JSON: {error}") from error
    _check_depth(value)
    return value


def parse_yaml(body: bytes) -> Any:
    """YAML, or JSON, which is YAML too and much faster to read."""
    if body.lstrip()[:1] == b"{":
        with suppress(StatusError):  # flow style YAML also begins like this
            return parse_json(body, integers=True)
    try:
        # A few bytes of aliases can mean gigabytes, and clients expand their own.
        if b"*" in body and any(isinstance(e, yaml.AliasEvent) for e in yaml.parse(body, _Loader)):
            raise bad_request("the body cannot be read as YAML: aliases are not accepted")
        value = yaml.load(body, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise bad_request(f"the body cannot be read as YAML: {error}") from error
    _check_depth(value)
    return value


def as_yaml(body: bytes) -> bytes:
    """An answer in YAML."""
    return yaml.safe_dump(msgspec.json.decode(body), sort_keys=True, allow_unicode=True).encode()


def _object(value: Any) -> Raw:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise bad_request("the body of the request must be an object")
    return value


def _check_depth(value: Any) -> None:
    """Keep recursive functions below the recursion limit of Python."""
    level, todo = 0, [value]
    while todo:
        if level > _DEPTH:
            raise bad_request(f"the body is nested deeper than {_DEPTH} levels")
        deeper: list[Any] = []
        for item in todo:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level, todo = level + 1, deeper


_DUPLICATE = "duplicate field"


class FieldWarning(NamedTuple):
    """A warning, and the field it is about."""

    text: str
    path: str = ""


class _WithDuplicates(dict[str, Any]):
    """A map that was written with some keys twice."""

    duplicates: tuple[str, ...] = ()


def duplicate_fields(call: Call) -> list[FieldWarning]:
    """Fields that the body has twice in the same map."""
    if call.query.get("fieldValidation") == "Ignore" or not call.body:
        return []
    kind = media_type(call.content_type)
    if kind == MEDIA_TYPE:
        return []
    text = "json patch duplicate field" if kind == "application/json-patch+json" else _DUPLICATE
    if kind.endswith("yaml") and call.body.lstrip()[:1] != b"{":
        paths = [path for path, _ in _in_yaml(_composed(call.body), "")]
    else:
        paths = _in_json(call.body)
    if kind == "application/apply-patch+yaml":
        return _by_line(call.body) if paths else []
    return [FieldWarning(f'{text} "{path}"', path) for path in dict.fromkeys(paths)]


def in_field_order(call: Call, warnings: list[FieldWarning]) -> list[FieldWarning]:
    """Warnings in the order of the fields of the body."""
    if len(warnings) < 2 or call.resource.custom:
        return warnings
    places = {path: i for i, path in enumerate(_paths(read(call.body, call.content_type), ""))}
    return sorted(warnings, key=lambda warning: places.get(warning.path, 0))


def _by_line(body: bytes) -> list[FieldWarning]:
    return [
        FieldWarning(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
        for _, key in _in_yaml(_composed(body), "")
    ]


def _composed(body: bytes) -> yaml.Node | None:
    node: yaml.Node | None = yaml.compose(body, yaml.CSafeLoader)
    return node


def _in_json(body: bytes) -> list[str]:
    any_found = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal any_found
        unique = dict(items)
        if len(unique) == len(items):
            return unique
        any_found = True
        marked = _WithDuplicates(unique)
        written = Counter(key for key, _ in items)
        marked.duplicates = tuple(key for key, times in written.items() if times > 1)
        return marked

    try:
        value = json.loads(body, object_pairs_hook=pairs)
    except ValueError:  # flow style YAML, which begins like JSON
        return []
    return list(_duplicates(value, "")) if any_found else []


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _WithDuplicates):
        yield from (f"{path}{key}" for key in value.duplicates)
    for part, below in _parts(value, path):
        yield from _duplicates(part, f"{below}.")


def _paths(value: Any, path: str) -> Iterator[str]:
    """The paths of all fields, in their order."""
    for part, below in _parts(value, path):
        yield below
        yield from _paths(part, f"{below}.")


def _parts(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, dict):
        yield from ((part, f"{path}{key}") for key, part in value.items())
    elif isinstance(value, list):
        yield from ((part, f"{path.removesuffix('.')}[{i}]") for i, part in enumerate(value))


def _in_yaml(node: yaml.Node | None, path: str) -> Iterator[tuple[str, yaml.Node]]:
    """The paths of duplicate keys, and their nodes."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield f"{path}{key.value}", key
            seen.add(key.value)
            yield from _in_yaml(value, f"{path}{key.value}.")
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from _in_yaml(value, f"{path.removesuffix('.')}[{i}].")
