"""Request bodies: bytes of a declared type -> an object, or a Refusal that says what is wrong.

Pure; called by `verbs.py`. Nothing a client sends gets past here undecoded, so bad UTF-8, broken
JSON, bottomless nesting and protobuf all end as an answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from muster.errors import Refusal
from muster.local.apiserver.request import protobuf
from muster.local.apiserver.status import bad_request, unsupported_media, unsupported_patch

if TYPE_CHECKING:
    from muster.api.meta import Raw

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
        with suppress(Refusal):  # flow style YAML also begins like this
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
