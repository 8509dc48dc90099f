"""Evaluating expressions.

Everything here is plain: expressions are text, values are Python objects, and a result is a value
or the sentence of an error. So a batch can be evaluated in this process or in another one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from localkube.apiserver.cel import environment, times
from localkube.apiserver.cel.batches import Result
from localkube.apiserver.cel.escaping import fields_used, uses, without_text
from localkube.apiserver.cel.rewriting import rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cel_expr_python import cel

    from localkube.apiserver.cel.batches import Batch


def run(batch: Batch) -> list[Result]:
    """Evaluate the expressions of a batch."""
    composed = _Composed(batch) if batch.variables else None
    return [
        composed.evaluate(text)
        if composed
        else evaluate(text, batch.values, with_times=batch.with_times)
        for text in batch.expressions
    ]


def evaluate(expression: str, values: Mapping[str, Any], *, with_times: bool = False) -> Result:
    """Evaluate one expression; `with_times` if there may be times inside of the values."""
    if environment.OLD_SELF_LIST in values:
        expression = f"cel.bind(oldSelf, {environment.OLD_SELF_LIST}[?0], (\n{expression}\n))"
    if with_times and times.has_times(dict(values)):
        expression, values = times.separate(expression, values)
    try:
        found = _program(expression).eval(data=values)
        value = found.plain_value()
    except RuntimeError as error:  # among them the limit of iterations
        return Result(error=_worded(str(error)))
    except TypeError:
        return Result(error="an optional value is no result")
    if found.type().name() == "ERROR":
        return Result(error=_worded(str(value)))
    return Result(value)


@lru_cache(maxsize=4096)
def _program(expression: str) -> cel.Expression:
    return environment.for_evaluation().compile(rewritten(expression), disable_check=True)


class _Composed:
    """Expressions that refer to `variables`."""

    def __init__(self, batch: Batch) -> None:
        self._sources = dict(batch.variables)
        self._known: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self._values = batch.values

    def evaluate(self, expression: str) -> Result:
        names = _references(expression)
        for name in names:
            self._compute(name)
        # Only values that are read: the library converts them anew for each expression.
        values = {
            name: _read_part(value, expression, name)
            for name, value in self._values.items()
            if uses(expression, name)
        }
        values["variables"] = {name: self._known[name] for name in names if name in self._known}
        result = evaluate(expression, values, with_times=True)
        # A variable without a value is missing: it is an error only where it is reached.
        found = re.fullmatch(r"no such key: (\w+)", result.error)
        if found and found[1] in self._errors:
            return Result(error=self._errors[found[1]])
        return result

    def _compute(self, name: str) -> None:
        if name in self._known or name in self._errors or name not in self._sources:
            return
        result = self.evaluate(self._sources[name])
        if result.error:
            self._errors[name] = (
                f"composited variable {name!r} fails to evaluate: {result.error}"
            ).replace("'", '"')
        else:
            self._known[name] = _storable(result.value)


def _read_part(value: Any, expression: str, name: str) -> Any:
    """The fields of a variable that an expression reads."""
    fields = fields_used(expression, name)
    if fields is None or not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if key in fields}


@lru_cache(maxsize=4096)
def _references(expression: str) -> tuple[str, ...]:
    names = re.findall(r"(?<![.\w])variables\s*\.\s*\??\s*(\w+)", without_text(expression))
    return tuple(dict.fromkeys(names))


def _storable(value: Any) -> Any:
    """A result in the form of an input."""
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, bytearray):
        return bytes(value)
    return value


_WORDS = (
    (re.compile(r'Key not found in map : "(.*)"'), r"no such key: \1"),
    (re.compile(r"Key not found in map : (.*)"), r"no such key: \1"),
    (re.compile(r"[Ii]ndex error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"No matching overloads found.*", re.DOTALL), "no such overload"),
    (
        re.compile(r"Iteration budget exceeded"),
        "operation cancelled: actual cost limit exceeded",
    ),
)


def _worded(error: str) -> str:
    """The library's error in the words of the real server."""
    text = error.partition(": ")[2] or error
    text = re.sub(r" \[[A-Z_]+\]\Z", "", text)
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
