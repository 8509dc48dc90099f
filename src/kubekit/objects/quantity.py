"""Kubernetes quantities ("500m", "1.5Gi", "2e3"), exact.

A quantity is parsed into an `Amount`: billionths, and the notation it was written in, because sums
are shown in the notation of their first term. The scheduler and the job views count in integers on
top of that: cpu in thousandths, everything else in whole units, rounded away from zero, so that a
request for a little never becomes a request for nothing.

The tests compare with vectors made by Kubernetes' own parser. There is one deliberate difference:
where Kubernetes' int64 overflows, which silently gives 0 or nonsense there, the integer is the
largest int64 here, with its sign. An absurd request must not look like a request for nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from kubekit.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.core import Quantity

MAX_INT64 = 2**63 - 1

_MILLI, _WHOLE = 10**6, 10**9  # in billionths
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = (
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_LONGEST = 1000
"""Characters; more is an attack on the arithmetic rather than an amount of anything."""


class InvalidQuantity(MusterError):
    """A quantity that Kubernetes rejects."""


class Amount(msgspec.Struct, frozen=True, order=True, gc=False):
    """A number of billionths, and the notation in which it is written."""

    nano: int = 0
    notation: Literal["decimal", "binary", "exponent"] = "decimal"

    def __add__(self, other: object) -> Amount:
        if not isinstance(other, Amount):
            return NotImplemented
        # As in Kubernetes, zero has no notation: a sum that starts at 0 takes the next one.
        return Amount(self.nano + other.nano, (self if self.nano else other).notation)

    def __sub__(self, other: Amount) -> Amount:
        return self + Amount(-other.nano, other.notation)

    def __str__(self) -> str:
        """The canonical form: no fraction, and the largest suffix that allows it."""
        whole = self.nano % _WHOLE == 0 and abs(self.nano) >= 1024 * _WHOLE
        if self.notation == "binary" and whole:
            count, suffix = self.nano // _WHOLE, ""
            for name in _TWOS:
                if count % 1024:
                    break
                count, suffix = count // 1024, name
            return f"{count}{suffix}"
        count, power = self.nano, -9
        largest = 18 if self.notation == "decimal" else 10**6
        while count and count % 1000 == 0 and power < largest:
            count, power = count // 1000, power + 3
        return f"{count}{self._suffix(power)}" if count else "0"

    def _suffix(self, power: int) -> str:
        if self.notation == "exponent":
            return f"e{power}" if power else ""
        return next(name for name, tens in _TENS.items() if tens == power)

    def in_units(self, nano: int) -> int:
        """The number of units of `nano` billionths, rounded away from zero, within int64."""
        count = min(MAX_INT64, -(-abs(self.nano) // nano))
        return count if self.nano >= 0 else -count

    def rounded_up_to_milli(self) -> Amount:
        """No finer than thousandths, as the API server stores resources."""
        nano = -(-abs(self.nano) // _MILLI) * _MILLI
        return Amount(nano if self.nano >= 0 else -nano, self.notation)


def whole_amount(number: int) -> Amount:
    """An amount in whole units."""
    return Amount(number * _WHOLE)


@lru_cache(maxsize=4096, typed=True)
def parse_quantity(quantity: Quantity) -> Amount:
    """The amount of a quantity; a fraction of a billionth is rounded away from zero."""
    text = str(quantity)
    match = re.fullmatch(_FORM, text) if 0 < len(text) <= _LONGEST else None
    if match is None:
        raise InvalidQuantity(
            f"{text[:60]!r} is not a quantity", hint='write a number like "500m", "2" or "1.5Gi"'
        )
    part, suffix = match["part"] or "", match["suffix"] or ""
    digits = match["whole"] + part
    tens = int(match["exponent"]) if match["exponent"] else _TENS.get(suffix, 0)
    twos = _TWOS.get(suffix, 0)
    if not digits and (tens < -9 or twos > 40):
        # The real parser takes a missing number for 0 ("Gi" is 0), except on its slow path.
        raise InvalidQuantity(f"{text!r} has no number")
    nano = _shifted(int(digits or "0") << twos, tens - len(part) + 9)
    if twos:
        nano = min(nano, MAX_INT64 * _WHOLE)
    notation: Literal["decimal", "binary", "exponent"]
    notation = "binary" if twos else "exponent" if match["exponent"] else "decimal"
    return Amount(-nano if match["sign"] == "-" else nano, notation)


def _shifted(count: int, tens: int) -> int:
    """ceil(count * 10**tens) for count >= 0; past all int64, powers are cut short to stay cheap."""
    if count == 0:
        return 0
    power: int = 10 ** min(abs(tens), 2 * _LONGEST)
    return count * power if tens >= 0 else -(-count // power)


@lru_cache(maxsize=65536, typed=True)
def parse_milli(quantity: Quantity) -> int:
    """The quantity in thousandths, the unit of cpu."""
    return parse_quantity(quantity).in_units(_MILLI)


@lru_cache(maxsize=65536, typed=True)
def parse_whole(quantity: Quantity) -> int:
    """The quantity in whole units: bytes, GPUs, pods, and everything but cpu."""
    return parse_quantity(quantity).in_units(_WHOLE)


def parse_amount(resource: str, quantity: Quantity) -> int:
    """The quantity in the unit of its resource."""
    return parse_milli(quantity) if resource == "cpu" else parse_whole(quantity)


def sum_resources(lists: Iterable[Mapping[str, Quantity]]) -> dict[str, int]:
    """The sum of several resource lists, each resource in its unit."""
    sums: dict[str, int] = {}
    for resources in lists:
        for name, quantity in resources.items():
            sums[name] = sums.get(name, 0) + parse_amount(name, quantity)
    return sums


def format_cpu(thousandths: int) -> str:
    """Cores, as a person writes them: 1500 -> "1.5", 2000 -> "2"."""
    sign = "-" if thousandths < 0 else ""
    cores, rest = divmod(abs(thousandths), 1000)
    return f"{sign}{cores}.{rest:03d}".rstrip("0").rstrip(".")


def format_bytes(count: int) -> str:
    """Bytes in the largest binary unit, to one decimal: 1610612736 -> "1.5Gi"."""
    sign, count = ("-", -count) if count < 0 else ("", count)
    text = str(count)
    for suffix, twos in _TWOS.items():
        tenths = ((count * 10 >> twos - 1) + 1) >> 1  # rounded to the nearest, in integers
        if tenths < 10:
            break
        text = f"{tenths // 10}.{tenths % 10}".removesuffix(".0") + suffix
    return sign + text


def format_amount(resource: str, count: int) -> str:
    """The text of an integer that `parse_amount` gave, for messages."""
    if resource == "cpu":
        return format_cpu(count)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return format_bytes(count)
    return str(count)
