"""A call as bytes: the function, its closure and its helpers by value, installed packages by name.

cloudpickle sends functions of `__main__` by value. Here the user's own modules are treated alike,
because a pod does not have them. The registration with cloudpickle lasts for one call only, since
other libraries of the process use cloudpickle too.

If an object cannot be pickled, pickle only names its type, but a person needs the variable. So
`Search` pickles the parts of the call one by one, and goes on inside the first part that fails,
down to the smallest one.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import threading
import types
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kubekit.errors import UsageError
from muster.sdk.functions import own_modules
from muster.sdk.functions.standalone.program import with_article
from muster.sdk.functions.standalone.reductions import reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Names = frozenset[str] | None
    """Names of own modules that are sent; None for all."""

MAX_DEPTH = 12
_LOCK = threading.Lock()

# What pickle, cloudpickle and the `__reduce__` of ordinary classes raise.
PICKLING_ERRORS = (
    pickle.PicklingError,
    TypeError,
    AttributeError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ImportError,
)


def pickle_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bytes:
    """The call as bytes; UsageError names the object that cannot be pickled."""
    call = (function, tuple(args), dict(kwargs))
    with _own_modules_by_value():
        try:
            return dumps(call)
        except PICKLING_ERRORS:
            names = own_modules.used_names(call)
        try:
            return dumps(call, names)
        except PICKLING_ERRORS as error:
            where, type_name = Search(names).in_call(function, args, kwargs)
            raise UsageError(
                f"{name_of(function)} cannot be sent to a pod: {where} is {type_name}, which "
                f"cannot be pickled ({error})",
                hint="Create it inside the function, or pass the values that it is made from.",
            ) from error


def dumps(value: Any, names: Names = None) -> bytes:
    """The value as bytes, by cloudpickle; of own modules only these names."""
    from cloudpickle import CloudPickler, cloudpickle

    class Pickler(CloudPickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, types.ModuleType) and own_modules.is_own(value.__name__, value):
                content = own_modules.content(value, names)
                return cloudpickle.dynamic_subimport, (value.__name__, content)
            made_from = reduction(value, _is_sent_by_value)
            if made_from is not None:
                return made_from
            return super().reducer_override(value)

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def _is_sent_by_value(function: Any) -> bool:
    """Whether a replica would not find this function by its name."""
    module: str = function.__module__
    return (
        module == "__main__"
        or "<locals>" in function.__qualname__
        or own_modules.is_own(module, sys.modules.get(module))
    )


def name_of(function: Any) -> str:
    """The function's name for messages."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).rpartition("<locals>.")[2]


@contextmanager
def _own_modules_by_value() -> Iterator[None]:
    import cloudpickle

    with _LOCK:
        known = cloudpickle.list_registry_pickle_by_value()
        added = [row for row in own_modules.own_modules() if row.__name__ not in known]
        for module in added:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


class Search:
    """The search in one call, of which these names of own modules are sent."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def in_call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[str, str]:
        """The description of the object, and its type with an article."""
        parts: list[tuple[str, Any]] = [(name_of(function), function)]
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
            dumps(value, self._names)
        except PICKLING_ERRORS:
            return False
        return True

    def _parts(self, label: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The objects that are pickled with this one, each with a description."""
        if isinstance(value, types.MethodType):
            yield f"the object of the method {label}", value.__self__
            yield label, value.__func__
        elif isinstance(value, functools.partial):
            yield name_of(value.func), value.func
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
    scope = f"of {name_of(function)}"
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
