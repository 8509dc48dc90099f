"""Quantities as the server writes them down: `0.5` is `500m`, `1024Mi` is `1Gi`, 2 is `"2"`.

Pure; called by `screening.py` for built-in kinds once the types are known to be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.quota.amounts import Amount, parse
from muster.local.apiserver.structural import children, is_quantity

if TYPE_CHECKING:
    from muster.api.schemas import Schema

_MILLI = 10**6


def rewrite(value: Any, schema: Schema) -> None:
    """Write every list of resources below `value` in the shortest words, in place."""
    extra = schema.additional()
    if isinstance(value, dict) and extra is not None and is_quantity(extra):
        for name, quantity in value.items():
            value[name] = _shortest(quantity)
        return
    for part, known, _, _ in children(value, schema):
        if isinstance(part, dict | list):
            rewrite(part, known)


def _shortest(quantity: object) -> str:
    text = str(quantity)
    if "e" in text.lower().rstrip("ei"):  # so it was meant, as 1e3
        return text
    amount = parse(text)
    return str(Amount(-(-amount.nano // _MILLI) * _MILLI, amount.binary))
