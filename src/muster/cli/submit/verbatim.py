"""YAML whose values stay the text that somebody wrote: `1.10`, `010`, `yes` and `12:30:45` too.

Used by `files` for the short form of a job, where a key is a flag and its value what would follow
the flag on a command line, and for the values of `--set`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from muster.cli import manifests
from muster.errors import UsageError

if TYPE_CHECKING:
    from muster.api.meta import Raw

_KEPT = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:null")
_NESTED = ("[", "{", '"', "'")
_QUOTE = "A value that begins with one of [ { \" ' is YAML; put all of it in quotes to mean text."


class Verbatim(manifests.Loader):
    """As for manifests, but a plain word is text; nothing at all, `~` and `null` are None."""


Verbatim.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag in _KEPT]
    for first, rules in manifests.Loader.yaml_implicit_resolvers.items()
}


def document(text: str) -> Raw:
    """The one document of a text that `manifests` could read, with its values as written."""
    found: list[Raw]
    try:
        found = [json.loads(text, parse_float=str, parse_int=str, parse_constant=str)]
    except json.JSONDecodeError:
        found = [one for one in yaml.load_all(text, Verbatim) if one is not None]
    return {key: _written(value) for key, value in found[0].items()}


def value(change: str, text: str, *, typed: bool) -> Any:
    """The value of `--set PATH=VALUE`: a list, a mapping, something in quotes, or plain text.

    `typed` is for manifests: a plain word is then what JSON says, but only if nothing of it is
    lost; 1.10 stays text.
    """
    if text.startswith(_NESTED):
        return _nested(change, text, manifests.Loader if typed else Verbatim)
    if not typed:
        return text
    try:
        found = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return found if json.dumps(found) == text else text


def _nested(change: str, text: str, loader: Any) -> Any:
    try:
        node = yaml.compose(text, loader)
        found = yaml.load(text, loader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or error
        raise UsageError(f"--set {change!r} is not YAML: {problem}", hint=_QUOTE) from None
    if text[node.end_mark.index :].strip():
        raise UsageError(f"--set {change!r}: what follows the value would be lost", hint=_QUOTE)
    return found if loader is manifests.Loader else _written(found)


def _written(value: Any) -> Any:
    """JSON's words, and YAML's with a tag, as the text that they were."""
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None else str(value)
