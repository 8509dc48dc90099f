"""Functions of Kubernetes for quantities and for semantic versions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kubekit.errors import InvalidQuantity
from kubekit.objects.quantity import MAX_INT64, parse_quantity

if TYPE_CHECKING:
    from localkube.apiserver.cel.functions.signatures import Implementation

Value = dict[str, str]
_WHOLE = 10**9  # quantities are counted in billionths
_NUMBER = r"(0|[1-9][0-9]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\Z"
)


# -- quantities: a map with the billionths as text, because they may have more than 64 bits -------


def _quantity(text: str) -> Value:
    try:
        return _of(parse_quantity(text).nano)
    except InvalidQuantity as error:
        raise ValueError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from error


def _of(nano: int) -> Value:
    return {"quantity": str(nano)}


def _nano(quantity: Value) -> int:
    return int(quantity["quantity"])


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


def _is_integer(quantity: Value) -> bool:
    whole, rest = divmod(_nano(quantity), _WHOLE)
    return not rest and abs(whole) <= MAX_INT64


def _as_integer(quantity: Value) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return _nano(quantity) // _WHOLE


def _order(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


# -- versions ------------------------------------------------------------------------------------


def _semver(text: str, normalize: bool = False) -> Value:
    text = _normalized(text) if normalize else text
    if not _SEMVER.match(text):
        raise ValueError(f"{text!r} is not a semantic version")
    return {"semver": text}


def _normalized(text: str) -> str:
    """A version without its `v`, without leading zeros, and with three numbers."""
    numbers, mark, rest = re.match(r"v?([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" if part else "" for part in numbers.split(".")]
    parts += ["0"] * (3 - len(parts))
    return ".".join(parts) + mark + rest


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except ValueError:
        return False
    return True


def _part(semver: Value, number: int) -> int:
    found = _SEMVER.match(semver["semver"])
    return int(found[number]) if found else 0


def _rank(semver: Value) -> tuple[object, ...]:
    """The order of versions: one with a pre-release comes before the one without."""
    found = _SEMVER.match(semver["semver"])
    pre = (found[4] if found else None) or ""
    words = [(0, int(w), "") if w.isdecimal() else (1, 0, w) for w in pre.split(".") if w]
    return (*(_part(semver, n) for n in (1, 2, 3)), not words, words)


def _compared(a: Value, b: Value) -> int:
    # Both types have these functions, and both are maps in an evaluation.
    if "semver" in a:
        return _order(_rank(a), _rank(b))
    return _order(_nano(a), _nano(b))


def _comparisons(kind: str) -> dict[str, Implementation]:
    return {
        f"{kind}.isGreaterThan({kind}) -> bool": lambda a, b: _compared(a, b) > 0,
        f"{kind}.isLessThan({kind}) -> bool": lambda a, b: _compared(a, b) < 0,
        f"{kind}.compareTo({kind}) -> int": _compared,
    }


FUNCTIONS: dict[str, Implementation] = {
    **_comparisons("Quantity"),
    **_comparisons("Semver"),
    "quantity(string) -> Quantity": _quantity,
    "isQuantity(string) -> bool": _is_quantity,
    "sign(Quantity) -> int": lambda q: _order(_nano(q), 0),
    "Quantity.asApproximateFloat() -> double": lambda q: _nano(q) / _WHOLE,
    "Quantity.asInteger() -> int": _as_integer,
    "Quantity.isInteger() -> bool": _is_integer,
    "Quantity.add(Quantity) -> Quantity": lambda a, b: _of(_nano(a) + _nano(b)),
    "Quantity.add(int) -> Quantity": lambda a, b: _of(_nano(a) + b * _WHOLE),
    "Quantity.sub(Quantity) -> Quantity": lambda a, b: _of(_nano(a) - _nano(b)),
    "Quantity.sub(int) -> Quantity": lambda a, b: _of(_nano(a) - b * _WHOLE),
    "semver(string) -> Semver": _semver,
    "semver(string, bool) -> Semver": _semver,
    "isSemver(string) -> bool": _is_semver,
    "isSemver(string, bool) -> bool": _is_semver,
    "Semver.major() -> int": lambda v: _part(v, 1),
    "Semver.minor() -> int": lambda v: _part(v, 2),
    "Semver.patch() -> int": lambda v: _part(v, 3),
}
