"""A call as bytes: the function, its closure and its helpers by value, installed packages by name.

cloudpickle sends functions of `__main__` by value. Here the user's own modules are treated alike,
because a pod does not have them. The registration with cloudpickle lasts for one call only, since
other libraries of the process use cloudpickle too.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import threading
import types
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from muster.errors import UsageError
from muster.sdk.functions import own_modules
from muster.sdk.functions.standalone.reductions import reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Names = frozenset[str] | None
    """Names of own modules that are sent; None for all."""

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
            from muster.sdk.functions.unpicklable import Search

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
