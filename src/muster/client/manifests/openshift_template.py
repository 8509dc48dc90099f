"""OpenShift templates: parameters and objects in, a list of objects out.

Pure: the source of randomness is an argument. The rules are those of `oc process`:

- `${NAME}` within any string or key becomes the parameter's text.
- `"${{NAME}}"` as a whole string becomes the JSON value of the text, or the text if it is not JSON.
- A name that is not a parameter stays unchanged: it may be a variable of a shell.

A value is data: it is never substituted again, and it can add no key, field or object.

A parameter with `generate: expression` gets random text: `user-[a-z0-9]{4}` becomes `user-x3k9`.
This is not a regular expression: only `[ranges]{count}` has a meaning, all other characters stay.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubekit.errors import UsageError, no_such

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from kubekit.objects.meta import Raw


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"
_ORDER = _LETTERS + _DIGITS
_CLASSES = {
    "w": _LETTERS + _DIGITS + "_",
    "d": _DIGITS,
    "a": _LETTERS,
    "A": "~!@#$%^&*()-_+={}[]\\|<,>.?/\"';:`",
}
_RANDOM = re.compile(r"\[([^\[\]]*)\]\{([0-9]+)\}")
_PART = re.compile(r"\\(?P<kind>[wdaA])|(?P<low>[a-zA-Z0-9])-(?P<high>[a-zA-Z0-9])|[a-zA-Z0-9]")
_MAX_COUNT = 255


def expand(expression: str, random: Random) -> str:
    r"""Text for `generate: expression`: every `[ranges]{count}` becomes `count` random characters.

    Ranges may be `a-z`, `A-Z`, `0-9` and parts of these, `\w`, `\d`, `\a` (letters) and `\A`
    (symbols); text outside the brackets stays unchanged.
    """

    def draw(match: re.Match[str]) -> str:
        count = int(match[2]) if len(match[2]) <= 4 else _MAX_COUNT + 1
        if not 1 <= count <= _MAX_COUNT:
            raise UsageError(f"{match[0]}: the count must be from 1 to {_MAX_COUNT}")
        alphabet = _alphabet(match[1])
        return "".join(random.choice(alphabet) for _ in range(count))

    return _RANDOM.sub(draw, expression)


def _alphabet(ranges: str) -> str:
    if rest := _PART.sub("", ranges):
        raise UsageError(
            f"[{ranges}]: {rest!r} is not a range",
            hint=r"Write ranges such as a-z, A-Z, 0-9, or \w, \d, \a, \A.",
        )
    letters = "".join(map(_letters, _PART.finditer(ranges)))
    if not letters:
        raise UsageError("[]: no characters to choose from")
    return "".join(dict.fromkeys(letters))


def _letters(part: re.Match[str]) -> str:
    if part["kind"]:
        return _CLASSES[part["kind"]]
    low, high = part["low"] or part[0], part["high"] or part[0]
    letters = _ORDER[_ORDER.index(low) : _ORDER.index(high) + 1]
    if not letters:
        raise UsageError(f"the range {low}-{high} is reversed")
    return letters


_NAME = re.compile(r"[a-zA-Z0-9_]+")
_TEXT = re.compile(r"\$\{([a-zA-Z0-9_]+)\}")
_VALUE = re.compile(r"\$\{\{([a-zA-Z0-9_]+)\}\}")


@dataclass(frozen=True)
class Parameter:
    """One parameter as the template declares it."""

    name: str
    description: str = ""
    value: str = ""
    generate: str = ""
    source: str = ""
    required: bool = False


@dataclass(frozen=True)
class Template:
    """A template whose fields were checked."""

    name: str
    parameters: tuple[Parameter, ...]
    objects: tuple[Raw, ...]
    labels: Mapping[str, str]


def read(raw: object) -> Template:
    """The template of a decoded manifest; a UsageError says which field is wrong."""
    document = _mapping(raw, "the document")
    kind = document.get("kind")
    if kind != "Template":
        raise UsageError(
            f"not a template: kind is {kind!r}",
            hint="`arena process` takes `kind: Template`; `arena apply -f` takes all others.",
        )
    metadata = _mapping(document.get("metadata") or {}, "metadata")
    rows = _sequence(document.get("parameters"), "parameters")
    parameters = tuple(_parameter(row, f"parameters[{i}]") for i, row in enumerate(rows))
    names = [parameter.name for parameter in parameters]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"parameters: {twice} is declared twice")
    objects = tuple(
        _mapping(item, f"objects[{i}]")
        for i, item in enumerate(_sequence(document.get("objects"), "objects"))
    )
    labels = _mapping(document.get("labels") or {}, "labels")
    return Template(
        name=str(metadata.get("name") or ""),
        parameters=parameters,
        objects=objects,
        labels={str(key): _text(labels, key, "labels") for key in labels},
    )


def unknown_names(template: Template, given: Iterable[str]) -> list[str]:
    """The given names that are not parameters of the template."""
    known = {parameter.name for parameter in template.parameters}
    return [name for name in given if name not in known]


def process(template: Template, given: Mapping[str, str], random: Random) -> list[Raw]:
    """The template's objects with its parameters and labels.

    A given value, even an empty one, takes precedence over the default, and the default over
    `generate`.
    """
    for name in unknown_names(template, given):
        known = [parameter.name for parameter in template.parameters]
        raise UsageError(
            no_such("parameter", name, known),
            hint=f"The template has {', '.join(known)}." if known else "The template has none.",
        )
    values = {parameter.name: _value(parameter, given, random) for parameter in template.parameters}
    missing = [p.name for p in template.parameters if p.required and not values[p.name]]
    if missing:
        raise UsageError(
            f"required and not given: {', '.join(missing)}",
            hint=f"Add {' '.join(f'--param {name}=…' for name in missing)}",
        )
    labels = {_put(key, values): _put(text, values) for key, text in template.labels.items()}
    return [
        _labelled(
            _substitute(_without_namespace(item), values, f"objects[{i}]"), labels, f"objects[{i}]"
        )
        for i, item in enumerate(template.objects)
    ]


def _value(parameter: Parameter, given: Mapping[str, str], random: Random) -> str:
    if parameter.name in given:
        return given[parameter.name]
    if parameter.value or not parameter.generate:
        return parameter.value
    if parameter.generate != "expression":
        raise UsageError(
            f"parameter {parameter.name}: unknown generator {parameter.generate!r}",
            hint="Write `generate: expression`.",
        )
    try:
        return expand(parameter.source, random)
    except UsageError as error:
        raise UsageError(f"parameter {parameter.name}: {error}", hint=error.hint) from None


def _put(text: str, values: Mapping[str, str]) -> str:
    # One pass over the template's text: a value that contains `${OTHER}` is not substituted.
    return _TEXT.sub(lambda match: values.get(match[1], match[0]), text)


def _substitute(node: Any, values: Mapping[str, str], path: str) -> Any:
    if isinstance(node, str):
        whole = _VALUE.fullmatch(node)
        if whole and whole[1] in values:
            return _json_or_text(values[whole[1]])
        return _put(node, values)
    if isinstance(node, list):
        return [_substitute(item, values, f"{path}[{i}]") for i, item in enumerate(node)]
    if isinstance(node, dict):
        return _keys_and_values(node, values, path)
    return node


def _keys_and_values(node: Raw, values: Mapping[str, str], path: str) -> Raw:
    result: Raw = {}
    for key, value in node.items():
        # A key is always text: `${{NAME}}` means the text of the parameter too.
        whole = _VALUE.fullmatch(key)
        name = values.get(whole[1], key) if whole else _put(key, values)
        if name in result:
            raise UsageError(f"{path}: the key {name!r} appears twice once parameters are put in")
        result[name] = _substitute(value, values, f"{path}.{key}")
    return result


def _json_or_text(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)  # NaN and Infinity are not JSON

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text


def _without_namespace(item: Raw) -> Raw:
    """The object without a fixed namespace; a namespace with a parameter stays."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or "namespace" not in metadata:
        return item
    namespace = metadata["namespace"]
    if isinstance(namespace, str) and _TEXT.search(namespace):
        return item
    return {**item, "metadata": {k: v for k, v in metadata.items() if k != "namespace"}}


def _labelled(item: Raw, labels: Mapping[str, str], path: str) -> Raw:
    if not labels:
        return item
    metadata = _mapping(item.get("metadata") or {}, f"{path}.metadata")
    own = _mapping(metadata.get("labels") or {}, f"{path}.metadata.labels")
    return {**item, "metadata": {**metadata, "labels": {**own, **labels}}}


def _parameter(row: object, path: str) -> Parameter:
    fields = _mapping(row, path)
    name = _text(fields, "name", path)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{path}.name: {name!r} is not possible", hint="Use letters, digits and '_'."
        )
    required = fields.get("required") or False
    if not isinstance(required, bool):
        raise UsageError(f"{path}.required: write true or false")
    return Parameter(
        name=name,
        description=_text(fields, "description", path) or _text(fields, "displayName", path),
        value=_text(fields, "value", path),
        generate=_text(fields, "generate", path),
        source=_text(fields, "from", path),
        required=required,
    )


def _text(node: Mapping[Any, object], key: str, path: str) -> str:
    value = node.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        written = json.dumps(value, default=str)
        raise UsageError(f"{path}.{key}: {written} is not text", hint=f'Write "{written}".')
    return value


def _mapping(value: object, path: str) -> Raw:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: not an object with fields")
    return value


def _sequence(value: object, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError(f"{path}: not a list", hint="Begin each item with '- '.")
    return value
