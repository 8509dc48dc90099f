"""Kubernetes quantities ("500m", "1.5Gi", "2e3") as exact integers.

Used wherever resources are counted or shown: the scheduler's tables, job views, admission. It
promises the integers that Kubernetes itself computes, proven against its own parser: cpu in milli,
everything else in whole units, rounded away from zero ("if you asked for some, you get some").
Where Kubernetes' int64 would overflow, which silently gives 0 or nonsense there, the answer is the
largest int64 instead, with its sign: an absurd request must not look like a free one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from muster.errors import InvalidQuantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.core import Quantity

MAX_INT64 = 2**63 - 1

_TENS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_LONGEST = 1000
"""Characters; more is an attack on the arithmetic rather than an amount of anything."""


@lru_cache(maxsize=65536, typed=True)
def parse_milli(quantity: Quantity) -> int:
    """A thousandth as the unit: how cpu is counted."""
    return _scaled(quantity, 3)


@lru_cache(maxsize=65536, typed=True)
def parse_whole(quantity: Quantity) -> int:
    """The unit itself: how bytes, GPUs, pods and everything but cpu are counted."""
    return _scaled(quantity, 0)


def parse_amount(resource: str, quantity: Quantity) -> int:
    """The quantity of that resource in the unit in which it is counted."""
    return parse_milli(quantity) if resource == "cpu" else parse_whole(quantity)


def sum_resources(many: Iterable[Mapping[str, Quantity]]) -> dict[str, int]:
    """The sum of several resource lists, each resource in its unit."""
    sums: dict[str, int] = {}
    for resources in many:
        for name, quantity in resources.items():
            sums[name] = sums.get(name, 0) + parse_amount(name, quantity)
    return sums


def format_cpu(thousandths: int) -> str:
    """Milli as a person writes cores: 1500 -> "1.5", 2000 -> "2"."""
    sign = "-" if thousandths < 0 else ""
    cores, rest = divmod(abs(thousandths), 1000)
    return f"{sign}{cores}.{rest:03d}".rstrip("0").rstrip(".")


def format_bytes(count: int) -> str:
    """Bytes in the largest binary unit, to one decimal: 1610612736 -> "1.5Gi"."""
    sign, count = ("-", -count) if count < 0 else ("", count)
    text = str(count)
    for suffix, twos in _TWOS.items():
        tenths = ((count * 10 >> twos - 1) + 1) >> 1
        if tenths < 10:
            break
        text = f"{tenths // 10}.{tenths % 10}".removesuffix(".0") + suffix
    return sign + text


def format_amount(resource: str, count: int) -> str:
    """The inverse of `amount`, for messages."""
    if resource == "cpu":
        return format_cpu(count)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return format_bytes(count)
    return str(count)


def _scaled(quantity: Quantity, places: int) -> int:
    """ceil(quantity * 10**places), away from zero, within int64."""
    text = str(quantity)
    found = _FORM.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if found is None:
        raise InvalidQuantity(
            f"{text[:60]!r} is not a quantity", hint='write a number like "500m", "2" or "1.5Gi"'
        )
    digits = found["whole"] + (found["part"] or "")
    tens, twos = _powers(found)
    if not digits and (tens < -9 or twos > 40):
        # The real parser takes a missing number for 0 ("Gi" is 0), except on its slow path.
        raise InvalidQuantity(f"{text!r} has no number")
    count = _shifted(int(digits or "0") << twos, tens - len(found["part"] or "") + places)
    return -min(MAX_INT64, count) if found["sign"] == "-" else min(MAX_INT64, count)


def _powers(found: re.Match[str]) -> tuple[int, int]:
    """The powers of ten and of two by which the suffix multiplies."""
    if found["exponent"]:
        return int(found["exponent"]), 0
    suffix = found["suffix"] or ""
    return _TENS.get(suffix, 0), _TWOS.get(suffix, 0)


def _shifted(count: int, tens: int) -> int:
    """ceil(count * 10**tens) for count >= 0; past all int64, powers are cut short to stay cheap."""
    if count == 0:
        return 0
    power: int = 10 ** min(abs(tens), 2 * _LONGEST)
    return count * power if tens >= 0 else -(-count // power)
