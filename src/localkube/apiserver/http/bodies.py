"""Request bodies: from bytes of a declared type to an object, and the fields that a body has twice.

Bad UTF-8, broken JSON, endless nesting and unknown protobuf are all answered with a 400 here, so
the rest of the server only sees decoded objects. Of a field that a body has twice the last one
counts, with a warning.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml

from kubekit.objects import yaml_reader
from kubekit.objects.quantity import MAX_INT64
from kubekit.objects.yaml_reader import STRANGERS_TEXT, YamlError, YamlTooLarge
from kubekit.request_errors import StatusError
from localkube.apiserver import api_errors
from localkube.apiserver.http import protobuf
from localkube.apiserver.http.requests import JSON, YAML
from localkube.apiserver.schema.values import join_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.http.requests import Call


LIMIT = 3 * 1024 * 1024
"""Bytes of a request body, as with kube-apiserver."""
_DEPTH = 512  # well below Python's recursion limit of 1000: objects are walked recursively
_YAML_LIMITS = STRANGERS_TEXT._replace(depth=_DEPTH)
"""YAML takes a hundred times as long as JSON, and the event loop waits. Clients send JSON."""
_LARGEST_IN_BLOCKS = 64 * 1024
"""Bytes of JSON that are written as YAML in blocks: a tenth of a second."""
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY)


def _as_integer(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return int(number) if number.is_integer() and abs(number) <= MAX_INT64 else number


_JSON_DECODER = msgspec.json.Decoder()
_INTEGERS = msgspec.json.Decoder(float_hook=lambda text: _as_integer(float(text)))


class _Loader(yaml_reader.SafeLoader):  # type: ignore[misc]
    """YAML as Kubernetes reads it: a date without quotes is text, and so is a number as a key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        self.flatten_mapping(node)
        # To Python, the keys 1 and true are equal.
        return {
            _key(self.construct_object(key, deep=True)): self.construct_object(value, deep=deep)
            for key, value in node.value
        }


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int | float):
        return json.dumps(key)
    raise ValueError(f"{key!r} cannot be a key")


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml_reader.SafeLoader.yaml_implicit_resolvers.items()
}


_Loader.add_constructor(
    "tag:yaml.org,2002:float", lambda loader, node: _as_integer(loader.construct_yaml_float(node))
)


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def read(body: bytes, content_type: str) -> Raw:
    """The object in a create, update or delete request."""
    kind = media_type(content_type) or JSON
    if kind == protobuf.MEDIA_TYPE:
        return protobuf.read(body)
    if kind not in (JSON, YAML):
        raise api_errors.unsupported_media((JSON, YAML, protobuf.MEDIA_TYPE))
    return _object(parse_yaml(body) if kind == YAML else parse_json(body))


def read_patch(body: bytes, kind: str, *, strategic: bool) -> Any:
    """The patch in a body of this media type: an object, or a list for JSON patch."""
    accepted = tuple(p for p in PATCHES if strategic or p != STRATEGIC_MERGE_PATCH)
    if kind not in accepted:
        if kind in PATCHES:
            raise api_errors.unsupported_media(accepted)
        raise api_errors.error("UnsupportedMediaType", "415: Unsupported Media Type", {})
    if kind == JSON_PATCH:
        return parse_json(body)
    if kind == APPLY:
        return _object(parse_yaml(body))
    patch = parse_json(body, integers=kind == STRATEGIC_MERGE_PATCH)
    return {} if patch is None and kind == STRATEGIC_MERGE_PATCH else _object(patch)


def parse_json(body: bytes, *, integers: bool = False) -> Any:
    """JSON of limited depth; with `integers`, 5.0 is 5, as in YAML and in strategic patches."""
    try:
        value = (_INTEGERS if integers else _JSON_DECODER).decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise api_errors.bad_request(f"the body cannot be read as JSON: {error}") from error
    check_depth(value)
    return value


def parse_yaml(body: bytes) -> Any:
    """YAML, or JSON, which is YAML too and much faster to read."""
    if body.lstrip()[:1] == b"{":
        with suppress(StatusError):  # flow style YAML also begins like this
            return parse_json(body, integers=True)
    try:
        # Clients resolve aliases themselves.
        value = yaml_reader.load(body, _Loader, _YAML_LIMITS, aliases=False)
    except YamlTooLarge as error:
        raise api_errors.too_large(
            f"the body is too large for YAML: {error}; send it as JSON"
        ) from error
    except YamlError as error:
        raise api_errors.bad_request(f"the body cannot be read as YAML: {error}") from error
    check_depth(value)
    return value


def as_yaml(body: bytes) -> bytes:
    """An answer in YAML.

    A large or deeply nested one stays as it is, since all JSON is YAML: writing it in blocks would
    hold up all other requests.
    """
    if len(body) > _LARGEST_IN_BLOCKS:
        return body
    try:
        value = msgspec.json.decode(body)
        return yaml.safe_dump(value, sort_keys=True, allow_unicode=True).encode()
    except RecursionError:
        return body


def _object(value: Any) -> Raw:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise api_errors.bad_request("the body of the request must be an object")
    return value


def check_depth(value: Any, what: str = "the body") -> None:
    """Reject a value so deep that recursive functions would exceed Python's recursion limit."""
    # Level by level instead of recursive, for the same reason.
    level, todo = 0, [value]
    while todo:
        if level > _DEPTH:
            raise api_errors.bad_request(f"{what} is nested deeper than {_DEPTH} levels")
        deeper: list[Any] = []
        for item in todo:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level, todo = level + 1, deeper


class FieldWarning(NamedTuple):
    """A warning, and the field it is about."""

    text: str
    path: str = ""


class _WithDuplicates(dict[str, Any]):
    """A map of a document that has some keys twice."""

    def __init__(self, unique: dict[str, Any], duplicates: list[str]) -> None:
        super().__init__(unique)
        self.duplicates = duplicates


def duplicate_fields(call: Call) -> list[FieldWarning]:
    """Fields that the body has twice in the same map."""
    if call.query.get("fieldValidation") == "Ignore" or not call.body:
        return []
    kind = media_type(call.content_type)
    if kind == protobuf.MEDIA_TYPE:
        return []
    if kind.endswith("yaml") and call.body.lstrip()[:1] != b"{":
        paths = [path for path, _ in _in_yaml(_composed(call.body), "")]
    else:
        paths = _in_json(call.body)
    if kind == APPLY and paths:
        with suppress(YamlError):  # JSON that is too large to be read as YAML
            keys = (key for _, key in _in_yaml(_composed(call.body), ""))
            text = 'line {}: key "{}" already set in map'
            return [FieldWarning(text.format(key.start_mark.line + 1, key.value)) for key in keys]
    text = "json patch duplicate field" if kind == JSON_PATCH else "duplicate field"
    return [FieldWarning(f'{text} "{path}"', path) for path in dict.fromkeys(paths)]


def in_field_order(call: Call, warnings: list[FieldWarning]) -> list[FieldWarning]:
    """Warnings in the order of the fields of the body."""
    # Of custom objects, the real server reports duplicates before unknown fields.
    if len(warnings) < 2 or call.resource.custom:
        return warnings
    fields = _walk(read(call.body, call.content_type))
    places = {path: i for i, (path, _) in enumerate(fields)}
    return sorted(warnings, key=lambda warning: places.get(warning.path, 0))


def _composed(body: bytes) -> yaml.Node | None:
    node: yaml.Node | None = yaml_reader.compose(body, _Loader, _YAML_LIMITS)
    return node


def _in_json(body: bytes) -> list[str]:
    any_repeated = False

    def as_map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal any_repeated
        unique = dict(pairs)
        if len(unique) == len(pairs):
            return unique
        any_repeated = True
        counts = Counter(key for key, _ in pairs)
        return _WithDuplicates(unique, [key for key, count in counts.items() if count > 1])

    try:
        document = json.loads(body, object_pairs_hook=as_map)
    except ValueError:  # flow style YAML, which begins like JSON
        return []
    # Every write comes here, and hardly any has duplicates: only then is the document walked.
    values = _walk(document) if any_repeated else ()
    maps = [(path, value) for path, value in values if isinstance(value, _WithDuplicates)]
    return [join_path(path, key) for path, value in maps for key in value.duplicates]


def _walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a document with its path, outer values first."""
    yield path, value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _walk(part, join_path(path, key))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _walk(part, f"{path}[{i}]")


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
