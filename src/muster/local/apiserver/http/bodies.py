"""Request bodies: bytes of a declared type -> an object, or a Refusal that says what is wrong.

Pure; called by `verbs.py`. Nothing a client sends gets past here undecoded, so bad UTF-8, broken
JSON, bottomless nesting and protobuf all end as an answer.

Keys that a body has twice. The last one counts, but a client may want to hear of it.

Pure; called by `screening.py` and `verbs.py` for bodies that `bodies.py` could read.
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


def _whole(number: float) -> float:
    return int(number) if number.is_integer() else number


_JSON_AS_IT_IS = msgspec.json.Decoder()
_WHOLE = msgspec.json.Decoder(float_hook=lambda text: _whole(float(text)))


class _Loader(yaml.CSafeLoader):
    """YAML without dates: one without quotes is text to Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return _whole(loader.construct_yaml_float(node))


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
    change = parse_json(body, whole="strategic" in kind)
    return {} if change is None and "strategic" in kind else _object(change)


def parse_json(body: bytes, *, whole: bool = False) -> Any:
    """JSON of sane depth; with `whole`, 5.0 is 5, as YAML and strategic patches have it."""
    try:
        value = (_WHOLE if whole else _JSON_AS_IT_IS).decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"the body cannot be read as JSON: {error}") from error
    _check_depth(value)
    return value


def parse_yaml(body: bytes) -> Any:
    """YAML, or JSON, which is YAML too and much faster to read."""
    if body.lstrip()[:1] == b"{":
        with suppress(StatusError):  # flow style YAML also begins like this
            return parse_json(body, whole=True)
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
    """Nothing later in the server needs to fear its recursion limit, or keys that are not text."""
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
    """Something to warn of, and the field it is about."""

    text: str
    path: str = ""


class _Repeating(dict[str, Any]):
    """A map that was written with some keys twice."""

    keys_twice: tuple[str, ...] = ()


def duplicate_fields(call: Call) -> list[FieldWarning]:
    """All keys that come again in the same map."""
    if call.query.get("fieldValidation") == "Ignore" or not call.body:
        return []
    kind = media_type(call.content_type)
    if kind == MEDIA_TYPE:
        return []
    text = "json patch duplicate field" if kind == "application/json-patch+json" else _DUPLICATE
    if kind.endswith("yaml") and call.body.lstrip()[:1] != b"{":
        found = [path for path, _ in _in_yaml(_composed(call.body), "")]
    else:
        found = _in_json(call.body)
    if kind == "application/apply-patch+yaml":
        return _by_line(call.body) if found else []
    return [FieldWarning(f'{text} "{path}"', path) for path in dict.fromkeys(found)]


def in_field_order(call: Call, told: list[FieldWarning]) -> list[FieldWarning]:
    """What is told of the fields of a body, in the order of the fields."""
    if len(told) < 2 or call.resource.custom:
        return told
    places = {path: i for i, path in enumerate(_paths(read(call.body, call.content_type), ""))}
    return sorted(told, key=lambda one: places.get(one.path, 0))


def _by_line(body: bytes) -> list[FieldWarning]:
    found = _in_yaml(_composed(body), "")
    return [
        FieldWarning(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
        for _, key in found
    ]


def _composed(body: bytes) -> yaml.Node | None:
    node: yaml.Node | None = yaml.compose(body, yaml.CSafeLoader)
    return node


def _in_json(body: bytes) -> list[str]:
    found = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        made = dict(items)
        if len(made) == len(items):
            return made
        found = True
        marked = _Repeating(made)
        written = Counter(key for key, _ in items)
        marked.keys_twice = tuple(key for key, times in written.items() if times > 1)
        return marked

    try:
        value = json.loads(body, object_pairs_hook=pairs)
    except ValueError:  # flow style YAML, which begins like JSON
        return []
    return list(_twice(value, "")) if found else []


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Repeating):
        yield from (f"{path}{key}" for key in value.keys_twice)
    for part, below in _parts(value, path):
        yield from _twice(part, f"{below}.")


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
    """The paths of keys that come again, and where they do."""
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
