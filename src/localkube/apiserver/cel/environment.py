"""The two environments of expressions: one to check them, one to evaluate them.

An expression is checked with the types that Kubernetes gives its variables: a mistyped field or a
comparison of a text with a number is found before the expression is stored. It is evaluated without
types, because values are plain Python objects.

`cel_expr_python` is imported with the first rule.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import permutations
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.cel import rewriting
from localkube.apiserver.cel.functions import (
    authorizer,
    formats,
    lists,
    networks,
    numbers,
    signatures,
)
from localkube.apiserver.cel.times import DURATIONS, RAW, TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cel_expr_python import cel

    from localkube.apiserver.cel.schema_types import Variables

_VARIABLES = (
    "self", "oldSelf", "object", "oldObject", "request", "params", "namespaceObject",
    "variables", "authorizer",
)  # fmt: skip
OLD_SELF_LIST = "oldSelf__list"
"""Holds the old value, or nothing, for rules in which `oldSelf` is an optional."""

# The versions that kube-apiserver 1.36 has; of `lists` the library knows none newer.
_EXTENSIONS = [
    {"name": "optional"},
    {"name": "strings", "version": 2},
    {"name": "lists", "version": 2},
    {"name": "sets"},
    {"name": "two-var-comprehensions"},
]
_FUNCTIONS = {
    **lists.FUNCTIONS,
    **networks.FUNCTIONS,
    **numbers.FUNCTIONS,
    **authorizer.FUNCTIONS,
    **formats.FUNCTIONS,
}
# A configuration cannot declare a second overload of a function of the library, an extension can.
_OVERLOADS = lists.OVERLOADS
# The library compares numbers of two types only in values whose types it does not know.
_COMPARISONS = {
    f"{name}({a}, {b}) -> bool": compare
    for name, compare in (("_<_", lt), ("_<=_", le), ("_>_", gt), ("_>=_", ge))
    for a, b in permutations(("int", "uint", "double"), 2)
}


@cache
def for_evaluation() -> cel.Env:
    """All variables without types."""
    from cel_expr_python import cel

    functions = signatures.implementations({**_FUNCTIONS, **_OVERLOADS, **rewriting.FUNCTIONS})
    config = {"extensions": [*_EXTENSIONS, {"name": "bindings"}]}
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(json.dumps(config)),
        variables={
            **dict.fromkeys((*_VARIABLES, OLD_SELF_LIST, RAW), cel.Type.DYN),
            TIMES: cel.Type.List(cel.Type.TIMESTAMP),
            DURATIONS: cel.Type.List(cel.Type.DURATION),
        },
        extensions=[cel.CelExtension("kubernetes", functions)],
    )


class Checked(NamedTuple):
    """The result of a check."""

    problem: str
    """Why the expression does not compile; empty if it does."""
    result_type: str = ""
    """`BOOL`, `LIST<STRING>`, `DYN` …"""


class Checker:
    """Checks some expressions over the same variables."""

    def __init__(self, variables: Variables, expressions: Iterable[str]) -> None:
        from cel_expr_python import cel

        overloads = signatures.implementations({**_OVERLOADS, **_COMPARISONS}, exact=True)
        # Reading all declarations takes ten times as long as the checks of a usual definition.
        words = set(re.findall(r"\w+", " ".join(expressions)))
        functions = {text: call for text, call in _FUNCTIONS.items() if _name(text) in words}
        config = {
            "extensions": _EXTENSIONS,
            "variables": [{"name": name, **kind} for name, kind in variables.types.items()],
            "functions": signatures.declarations(functions),
        }
        self._env = cel.NewEnv(
            variables.pool,
            config=cel.NewEnvConfigFromYaml(json.dumps(config)),
            extensions=[cel.CelExtension("kubernetes", overloads)],
        )

    def check(self, expression: str) -> Checked:
        """Check an expression."""
        try:
            compiled = self._env.compile(expression)
            # It may be nested too deeply only then.
            if (text := rewriting.rewritten(expression)) != expression:
                for_evaluation().compile(text, disable_check=True)
        except RuntimeError as error:
            return Checked(_worded(str(error)))
        return Checked("", compiled.return_type().name())


def _name(signature: str) -> str:
    return signatures.parse(signature).name.rpartition(".")[2]


def _worded(error: str) -> str:
    """The library's error in the words of the real server."""
    # `INVALID_ARGUMENT: ERROR: <input>:1:5: undefined field 'a' not found in struct 's' […] [CODE]`
    text = error.partition(": ")[2] or error
    text = text.rpartition(" [")[0] if text.endswith("]") else text
    lines = [line.partition(" not found in struct ")[0] for line in text.splitlines()]
    return "\n".join(lines).replace(" (in container '')", "")
