"""How to pickle values of the user's code that cloudpickle sends by name, or not at all.

Both sides use this module: the caller for the function, rank 0 for its result.
"""

from __future__ import annotations

import functools
import operator
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CachedFunction = type(functools.lru_cache(None)(len))
"""The type of a function with `functools.cache` or `lru_cache`."""


def reduction(value: Any, is_sent_by_value: Callable[[Any], bool]) -> Any:
    """What the value is made from, in the form of `__reduce__`; None to let cloudpickle decide.

    A cache starts empty on the other side.
    """
    if isinstance(value, functools.cached_property):  # it has a lock in Python 3.11
        return functools.cached_property, (value.func,), {"attrname": value.attrname}
    if isinstance(value, CachedFunction) and is_sent_by_value(value):
        decorator = functools.lru_cache(**value.cache_parameters())
        return operator.call, (decorator, value.__wrapped__)
    return None


def is_found_by_name(function: Any) -> bool:
    """Whether this process finds the function by its module and name."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function
