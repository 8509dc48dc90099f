"""Quantities added up and written as Kubernetes writes them: 500m + 500m is "1", 0.5Gi is "512Mi".

Pure; used for quotas and usage. `muster.api.quantity` counts in units, this keeps how an amount was
written too, because sums are shown to people in the words of the first thing added.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from muster.errors import InvalidQuantity

_TENS = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_TWOS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NANO = 10**9
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)


class Amount(NamedTuple):
    """So many billionths, last written in powers of two or of ten."""

    nano: int = 0
    binary: bool = False

    def __add__(self, other: object) -> Amount:
        if not isinstance(other, Amount):
            return NotImplemented
        return Amount(self.nano + other.nano, self.binary if self.nano else other.binary)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.nano - other.nano, self.binary if self.nano else other.binary)

    def __str__(self) -> str:
        if self.binary and self.nano % _NANO == 0 and abs(self.nano) >= 1024 * _NANO:
            count, power = self.nano // _NANO, 0
            while count % 1024 == 0 and power < len(_TWOS) - 1:
                count, power = count // 1024, power + 1
            return f"{count}{_TWOS[power]}"
        count, exponent = self.nano, -9
        while count and count % 1000 == 0 and exponent < max(_TENS):
            count, exponent = count // 1000, exponent + 3
        return f"{count}{_TENS[exponent]}" if count else "0"


def whole_amount(number: int) -> Amount:
    """So many whole things."""
    return Amount(number * _NANO)


def parse_quantity(quantity: object) -> Amount:
    """The amount a quantity stands for; what is below a billionth is rounded away from zero."""
    text = str(quantity)
    found = _FORM.fullmatch(text) if len(text) < 64 else None
    if found is None or not (found["whole"] or found["part"]):
        raise InvalidQuantity(f"{text[:60]!r} is not a quantity")
    part = found["part"] or ""
    suffix = found["suffix"] or ""
    digits = int(found["whole"] + part)
    if suffix in _TWOS[1:]:
        digits <<= 10 * _TWOS.index(suffix)
        tens = 9
    elif found["exponent"]:
        tens = 9 + int(found["exponent"])
    else:
        tens = 9 + next(power for power, name in _TENS.items() if name == suffix)
    tens -= len(part)
    nano = digits * 10**tens if tens >= 0 else -(-digits // 10**-tens)
    return Amount(-nano if found["sign"] == "-" else nano, suffix in _TWOS[1:])
