"""A call as bytes: the function, its closure and its helpers by value, installed packages by name.

cloudpickle sends functions of `__main__` by value. Here the user's own modules are treated alike,
because a pod does not have them. A module is the user's own if its source is neither part of Python
nor in a directory of installed packages. The registration with cloudpickle lasts for one call only,
since other libraries of the process use cloudpickle too.

Functions of an own module take along what they use. A module as such (`import helpers`, then
`helpers.f()`) takes along all its names, and that may be more than can be pickled. Then
`used_names` follows the code of a function: names that occur in no code that it reaches are not
needed.

If an object cannot be pickled, pickle only names its type, but a person needs the variable. So the
parts of the call are pickled one by one (`_smallest_failing`), and those of the first part that
fails, down to the smallest one.

Kept apart because it is about Python objects alone: its caller knows jobs and clusters.
"""

from __future__ import annotations

import functools
import io
import pickle
import site
import sys
import sysconfig
import threading
import types
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubekit.errors import UsageError
from muster.sdk.functions.standalone.program import reduction, with_article

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Names = frozenset[str] | None
    """Names of own modules that are sent; None for all."""


MAX_DEPTH = 13
_LOCK = threading.Lock()

_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
"""What Python adds to a class; cloudpickle leaves it out."""

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
            names = used_names(call)
        try:
            return dumps(call, names)
        except PICKLING_ERRORS as error:
            where, type_name = _smallest_failing(function, args, kwargs, names)
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
            if isinstance(value, types.ModuleType) and is_own(value.__name__, value):
                names_sent = content(value, names)
                return cloudpickle.dynamic_subimport, (value.__name__, names_sent)
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
        or is_own(module, sys.modules.get(module))
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
        loaded = [row for name, row in sorted(sys.modules.items()) if is_own(name, row)]
        added = [row for row in loaded if row.__name__ not in known]
        for module in added:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


def _smallest_failing(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], names: Names
) -> tuple[str, str]:
    """The description of the smallest part that fails, and its type with an article."""
    label, value = "the call as a whole", function
    parts: Iterable[tuple[str, Any]] = (
        (name_of(function), function),
        *((f"argument {number}", value) for number, value in enumerate(args, 1)),
        *((f"argument {name}", value) for name, value in kwargs.items()),
    )
    seen: set[int] = set()
    for _ in range(MAX_DEPTH):
        new = ((name, part) for name, part in parts if id(part) not in seen)
        failing = next(((name, part) for name, part in new if not _works(part, names)), None)
        if failing is None:
            break
        label, value = failing
        seen.add(id(value))
        parts = _parts(label, value, names)
    return label, type_name(value)


def _works(value: Any, names: Names) -> bool:
    try:
        dumps(value, names)
    except PICKLING_ERRORS:
        return False
    return True


def _parts(label: str, value: Any, names: Names) -> Iterator[tuple[str, Any]]:
    """The objects that are pickled with this one, each with a description."""
    match value:
        case types.MethodType():
            yield f"the object of the method {label}", value.__self__
            yield label, value.__func__
        case functools.partial():
            yield name_of(value.func), value.func
            yield from ((f"argument {n} of {label}", v) for n, v in enumerate(value.args, 1))
            yield from ((f"argument {n} of {label}", v) for n, v in value.keywords.items())
        case types.FunctionType():
            yield from _parts_of_function(label, value)
        case types.ModuleType() if is_own(value.__name__, value):
            rows = content(value, names).items()
            yield from ((f"{value.__name__}.{name}", v) for name, v in rows)
        case _:
            yield from _parts_of_data(label, value)


def _parts_of_data(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case dict():
            yield from ((f"{label}[{key!r}]", item) for key, item in value.items())
        case list() | tuple() | set() | frozenset():
            yield from ((f"{label}[{number}]", item) for number, item in enumerate(value))
        case type():
            own = ((n, v) for n, v in vars(value).items() if not isinstance(v, _DESCRIPTORS))
            yield from ((f"{value.__name__}.{name}", v) for name, v in own)
        case staticmethod() | classmethod():
            yield label, value.__func__
        case functools.cached_property():
            yield label, value.func
        case property():
            yield from ((label, value.fget), (label, value.fset))
        case _:
            own_values = getattr(value, "__dict__", {})
            yield from ((f"{label}.{name}", item) for name, item in own_values.items())
            yield f"the class {type(value).__name__}", type(value)


def _parts_of_function(label: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    scope = f"of {name_of(function)}"
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for variable, cell in cells:
        with suppress(ValueError):  # not assigned yet
            yield f"the variable {variable} {scope}", cell.cell_contents
    known = function.__globals__
    names = [n for n in code_names(function.__code__) if n in known]
    yield from ((f"the global {n} {scope}", known[n]) for n in names)
    yield from (
        (f"default {number} {scope}", v) for number, v in enumerate(function.__defaults__ or (), 1)
    )
    yield from ((f"default {n} {scope}", v) for n, v in (function.__kwdefaults__ or {}).items())
    yield from ((f"{label}.{n}", v) for n, v in vars(function).items())


def type_name(value: Any) -> str:
    """The type of a value, with an article."""
    kind = type(value)
    name = kind.__qualname__
    full = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    return with_article(full)


_BY_NAME = ("muster", "cloudpickle")
"""Packages that are sent by name wherever their source is."""
_INSTALLED_FOLDERS = ("site-packages", "dist-packages")
_OF_IMPORT = ("__builtins__", "__cached__", "__loader__", "__spec__")
"""Names of a module that the import system has put there."""


def is_own(name: str, module: types.ModuleType | None) -> bool:
    """Whether a loaded module is part of the user's own code."""
    file = getattr(module, "__file__", None)
    if name == "__main__" or not isinstance(file, str) or not file.endswith(".py"):
        return False  # cloudpickle knows __main__; what has no source is built in or compiled
    if getattr(module, "__name__", None) != name or name.partition(".")[0] in _BY_NAME:
        return False
    path = Path(file)
    if any(part in _INSTALLED_FOLDERS for part in path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = {sysconfig.get_path(name) for name in names} | set(site.getsitepackages())
    rows = {Path(path) for path in paths if path}
    return tuple(rows | {row.resolve() for row in rows})


def content(module: types.ModuleType, names: frozenset[str] | None = None) -> dict[str, Any]:
    """The names of an own module that are sent: all, or those among `names`."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _OF_IMPORT
        and (names is None or name in names or name in ("__name__", "__package__", "__file__"))
    }


def used_names(*roots: Any) -> frozenset[str]:
    """The names in all code that is sent with these objects."""
    names: set[str] = set()
    seen: set[int] = set()
    modules: list[types.ModuleType] = []
    pending = list(roots)
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type | types.FunctionType) and not _is_sent_by_value(value):
            continue
        if isinstance(value, types.ModuleType):
            modules.append(value)
        before = len(names)
        if isinstance(value, types.FunctionType):
            names.update(code_names(value.__code__))
        pending += (part for _, part in _parts("", value, frozenset(names)))
        if len(names) > before:  # modules that were seen may have these names too
            seen -= set(map(id, modules))
            pending += modules
            modules.clear()
    return frozenset(names)


def code_names(code: types.CodeType) -> list[str]:
    """The names of globals and attributes in the code, functions inside included."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += code_names(constant)
    return names
