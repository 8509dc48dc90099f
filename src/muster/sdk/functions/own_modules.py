"""The user's own modules: which they are, and which of their names a function uses.

A module is the user's own if its source is neither part of Python nor in a directory of installed
packages. A pod does not have it, so it travels by value. Functions of it take along what they use.
A module as such (`import helpers`, then `helpers.f()`) takes along all its names, and that may be
more than can be pickled. So `used_names` follows the code of a function: names that occur in no
code that it reaches are not needed.
"""

from __future__ import annotations

import functools
import site
import sys
import sysconfig
import types
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.sdk.functions.standalone.reductions import CachedFunction

if TYPE_CHECKING:
    from collections.abc import Iterator

_BY_NAME = ("muster", "cloudpickle")
"""Packages that are sent by name wherever their source is."""
_INSTALLED_FOLDERS = ("site-packages", "dist-packages")
_OF_IMPORT = ("__builtins__", "__cached__", "__loader__", "__spec__")
"""Names of a module that the import system has put there."""


def own_modules() -> list[types.ModuleType]:
    """The own modules that are loaded."""
    return [module for name, module in sorted(sys.modules.items()) if is_own(name, module)]


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
    """The names in all code that these objects reach."""
    names: set[str] = set()
    seen: set[int] = set()
    modules: list[types.ModuleType] = []
    pending = list(roots)
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.ModuleType):
            modules.append(value)
        before = len(names)
        pending += _reached(value, names)
        if len(names) > before:  # modules that were seen may have these names too
            seen -= set(map(id, modules))
            pending += modules
            modules.clear()
    return frozenset(names)


def _reached(value: Any, names: set[str]) -> Iterator[Any]:
    """The objects that this one leads to; adds the names in its code."""
    match value:
        case types.FunctionType():
            yield from _of_function(value, names)
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case functools.partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case types.ModuleType() if is_own(value.__name__, value):
            yield from content(value, frozenset(names)).values()
        case type():
            if is_own(value.__module__, sys.modules.get(value.__module__)):
                yield from vars(value).values()
        case _:
            yield from _of_data(value)


def _of_data(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            yield from value.values()
        case list() | tuple() | set():
            yield from value
        case staticmethod() | classmethod():
            yield value.__func__
        case CachedFunction():
            yield value.__wrapped__
        case functools.cached_property():
            yield value.func
        case property():
            yield from (value.fget, value.fset)
        case _:
            yield type(value)
            if is_own(type(value).__module__, sys.modules.get(type(value).__module__)):
                yield from getattr(value, "__dict__", {}).values()


def _of_function(function: types.FunctionType, names: set[str]) -> Iterator[Any]:
    own = code_names(function.__code__)
    names.update(own)
    known = function.__globals__
    yield from (known[name] for name in own if name in known)
    yield from (cell.cell_contents for cell in function.__closure__ or () if _is_set(cell))


def code_names(code: types.CodeType) -> list[str]:
    """The names of globals and attributes in the code, functions inside included."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += code_names(constant)
    return names


def _is_set(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
