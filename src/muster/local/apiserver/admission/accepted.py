"""Which of a definition's names it may use: not those that another one of its group has.

Pure; called by `definitions.py` on every write of a definition. One that cannot have all its names
is kept and not served; it gets them when the other one goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.meta import Raw

_WORDS = ("plural", "singular")
_KINDS = ("kind", "listKind")


def judge(crd: Raw, others: Iterable[Raw], now: str) -> Raw:
    """The names and conditions of a definition beside `others`, the accepted names of its group."""
    names, rest = crd["spec"]["names"], list(others)
    words = {n for other in rest for n in (*_of(other, _WORDS), *other.get("shortNames", ()))}
    kinds = {n for other in rest for n in _of(other, _KINDS)}
    before = (crd.get("status") or {}).get("conditions") or []
    taken = [
        *((f"{_title(field)}Conflict", names[field]) for field in _WORDS if names[field] in words),
        *(("ShortNamesConflict", n) for n in names.get("shortNames") or () if n in words),
        *((f"{_title(field)}Conflict", names[field]) for field in _KINDS if names[field] in kinds),
    ]
    if taken:
        reason, name = taken[-1]
        rows = [_row("NamesAccepted", "False", reason, f'"{name}" is already in use', now)]
        if not holds(before, "Established"):
            told = "not all names are accepted"
            rows.append(_row("Established", "False", "NotAccepted", told, now))
        lost = {name for _, name in taken}
        return {"acceptedNames": _without(names, lost), "conditions": _merged(before, rows)}
    rows = [_row("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)]
    if not holds(before, "Established"):
        told = "the initial names have been accepted"
        rows.append(_row("Established", "True", "InitialNamesAccepted", told, now))
    return {"acceptedNames": dict(names), "conditions": _merged(before, rows)}


def holds(rows: Sequence[Raw], type_: str) -> bool:
    """Whether a condition is true."""
    return any(row["type"] == type_ and row["status"] == "True" for row in rows)


def _of(names: Raw, fields: tuple[str, ...]) -> list[str]:
    return [names[field] for field in fields if names.get(field)]


def _title(field: str) -> str:
    return field[0].upper() + field[1:]


def _without(names: Raw, lost: set[str]) -> Raw:
    """The names that are left; plural and kind are told even when they are none."""
    kept = {key: value for key, value in names.items() if value not in [*lost]}
    short = [name for name in names.get("shortNames") or () if name not in lost]
    kept.pop("shortNames", None)
    return {"plural": "", "kind": "", **kept, **({"shortNames": short} if short else {})}


def _row(type_: str, status: str, reason: str, message: str, now: str) -> Raw:
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _merged(before: list[Raw], rows: list[Raw]) -> list[Raw]:
    """The rows by type; one that says the same as before keeps its time."""
    known = {row["type"]: row for row in before}
    for row in rows:
        old = known.get(row["type"])
        same = old is not None and (old["status"], old["reason"]) == (row["status"], row["reason"])
        known[row["type"]] = old if old is not None and same else row
    return list(known.values())
