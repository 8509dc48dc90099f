"""Finding the object that cannot be pickled, and how the function reaches it.

pickle only names a type. A person needs the variable. So the parts of the call are pickled one by
one, and the search goes on inside the first part that fails, down to the smallest one.
"""

from __future__ import annotations

import functools
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from muster.sdk.functions import own_modules, pickling
from muster.sdk.functions.standalone.program import with_article

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MAX_DEPTH = 12


class Search:
    """The search in one call, of which these names of own modules are sent."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def in_call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[str, str]:
        """The description of the object, and its type with an article."""
        parts: list[tuple[str, Any]] = [(pickling.name_of(function), function)]
        parts += [(f"argument {number}", value) for number, value in enumerate(args, 1)]
        parts += [(f"argument {name}", value) for name, value in kwargs.items()]
        for label, value in parts:
            if not self._works(value):
                return self._descend(label, value)
        return "the call as a whole", type_name(function)

    def _descend(self, label: str, value: Any) -> tuple[str, str]:
        seen: set[int] = set()
        for _ in range(MAX_DEPTH):
            seen.add(id(value))
            failing = next(
                (
                    (name, part)
                    for name, part in self._parts(label, value)
                    if id(part) not in seen and not self._works(part)
                ),
                None,
            )
            if failing is None:
                break
            label, value = failing
        return label, type_name(value)

    def _works(self, value: Any) -> bool:
        try:
            pickling.dumps(value, self._names)
        except pickling.PICKLING_ERRORS:
            return False
        return True

    def _parts(self, label: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The objects that are pickled with this one, each with a description."""
        if isinstance(value, types.MethodType):
            yield f"the object of the method {label}", value.__self__
            yield label, value.__func__
        elif isinstance(value, functools.partial):
            yield pickling.name_of(value.func), value.func
            yield from ((f"argument {n} of {label}", v) for n, v in enumerate(value.args, 1))
            yield from ((f"argument {n} of {label}", v) for n, v in value.keywords.items())
        elif isinstance(value, types.FunctionType):
            yield from _of_function(label, value)
        elif isinstance(value, types.ModuleType):
            rows = own_modules.content(value, self._names).items()
            yield from ((f"{value.__name__}.{name}", v) for name, v in rows)
        else:
            yield from _of_data(label, value)


def type_name(value: Any) -> str:
    """The type of a value, with an article."""
    kind = type(value)
    name = kind.__qualname__
    full = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    return with_article(full)


def _of_data(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{label}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{label}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, type):
        own = ((name, v) for name, v in vars(value).items() if not name.startswith("__"))
        yield from ((f"{value.__name__}.{name}", v) for name, v in own)
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from ((f"{label}.{name}", item) for name, item in vars(value).items())
        yield f"the class {type(value).__name__}", type(value)


def _of_function(label: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    scope = f"of {pickling.name_of(function)}"
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for variable, cell in cells:
        with suppress(ValueError):  # not assigned yet
            yield f"the variable {variable} {scope}", cell.cell_contents
    known = function.__globals__
    names = [n for n in own_modules.code_names(function.__code__) if n in known]
    yield from ((f"the global {n} {scope}", known[n]) for n in names)
    yield from (
        (f"default {number} {scope}", v) for number, v in enumerate(function.__defaults__ or (), 1)
    )
    yield from ((f"default {n} {scope}", v) for n, v in (function.__kwdefaults__ or {}).items())
    yield from ((f"{label}.{n}", v) for n, v in vars(function).items())
