"""Reading single fields of a manifest that anybody may have written, with errors that say where.

Used by `forms` and `mpi`. Each takes the value and its path and returns what it should be, or
raises InvalidJob.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from muster.errors import InvalidJob

if TYPE_CHECKING:
    from muster.api.meta import Raw


def spelt(raw: Raw, name: str) -> list[str]:
    """The keys under which that field is given, in any letter case; its own name comes first."""
    wanted = name.lower()
    found = [key for key in raw if str(key).lower() == wanted and raw[key] is not None]
    return sorted(found, key=lambda key: key != name)


def lookup(raw: Raw, name: str, path: str) -> Any:
    """The field of that name, or else of that name in another letter case; never one of two."""
    found = spelt(raw, name)
    if len(found) > 1:
        raise InvalidJob(
            f"{path}.{found[1]}", f"{path}.{found[0]} is given too", hint=f"keep one, as {name}"
        )
    return raw[found[0]] if found else None


def in_this_case(raw: Raw, names: tuple[str, ...], path: str) -> None:
    """Refuse what is one of these fields but for its letter case: it would not be heeded."""
    known = _in_small(names)
    for key, value in raw.items():
        name = known.get(str(key).lower(), key)
        if name != key and value is not None:
            raise InvalidJob(f"{path}.{key}", "is no field", hint=f"write {name}")


@lru_cache(maxsize=32)
def _in_small(names: tuple[str, ...]) -> dict[str, str]:
    return {name.lower(): name for name in names}


def mapping(value: object, path: str) -> Raw:
    """An object; a missing one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidJob(path, f"is {_a(value)}, not an object", hint="write its fields below it")
    return value


def sequence(value: object, path: str) -> list[Any]:
    """A list; a missing one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidJob(path, f"is {_a(value)}, not a list", hint="begin each item with '- '")
    return value


def objects(value: object, path: str) -> list[Raw]:
    """A list of objects; a missing one is empty, a missing item is wrong."""
    items = sequence(value, path)
    for i, item in enumerate(items):
        if item is None:
            raise InvalidJob(f"{path}[{i}]", "is empty", hint="write its fields or remove it")
        mapping(item, f"{path}[{i}]")
    return items


def text(value: object, path: str) -> str:
    """A string; a missing one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidJob(path, f"is {_a(value)}, not text", hint=f'write "{value}"')
    return value


def boolean(value: object, path: str, default: bool = False) -> bool:
    """True or false; text that says so is neither."""
    if value is None:
        return default
    if not isinstance(value, bool):
        said = str(value).strip().lower()
        hint = (
            f"write {said} without quotes" if said in ("true", "false") else "write true or false"
        )
        raise InvalidJob(path, f"is {_a(value)}, not true or false", hint=hint)
    return value


def integer(value: object, path: str, default: int, most: int = 2**31 - 1) -> int:
    """A number of things: not negative."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        number = value.strip() if isinstance(value, str) else ""
        hint = (
            f"write {number} without quotes" if number.isdecimal() else "write a number such as 1"
        )
        raise InvalidJob(path, f"is {_a(value)}, not a whole number", hint=hint)
    if value < 0:
        raise InvalidJob(path, f"is {value}", hint="write 0 or more")
    if value > most:
        raise InvalidJob(path, f"is {value}", hint=f"write at most {most}")
    return value


_WORDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a fraction",
    list: "a list",
    dict: "an object",
}


def _a(value: object) -> str:
    return _WORDS.get(type(value), "something else")
