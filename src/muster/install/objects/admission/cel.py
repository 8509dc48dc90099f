"""Words of CEL, the language of admission policies: pieces from which expressions are built. Pure.

Every function returns the text of an expression. `holder` and `path` are expressions, or names of
fields in a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.jobs.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.jobs.job_kinds import JobKind


def text(words: str) -> str:
    """A string."""
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"


def texts(words: Iterable[str]) -> str:
    """A list of strings."""
    return "[" + ", ".join(map(text, words)) + "]"


def sentence(*parts: str) -> str:
    """Parts of a sentence, joined: a part that begins with `=` is an expression, not text."""
    return " + ".join(part[1:] if part.startswith("=") else text(part) for part in parts)


def by_kind(attribute: str) -> str:
    """The value that the job's kind has in the table of job kinds: a word, or a list of words."""
    rows = (f"{text(kind)}: {_value(row, attribute)}" for kind, row in JOB_KIND_BY_NAME.items())
    return "{" + ", ".join(rows) + "}[object.kind]"


def _value(row: JobKind, attribute: str) -> str:
    value: str | tuple[str, ...] = getattr(row, attribute)
    return text(value) if isinstance(value, str) else texts(value)


def any_case(holder: str, field: str, default: str) -> str:
    """The field of this name in any letter case."""
    found = f"k, k.lowerAscii() == {text(field.lower())} && {holder}[k] != null"
    return f"({holder}.exists({found}) ? {holder}[{holder}.filter({found})[0]] : {default})"


def has(path: str) -> str:
    """Whether a field is there; null counts as missing, as in `muster.jobs.fields`."""
    return f"(has({path}) && {path} != null)"


def when(condition: str, words: str) -> str:
    """A list with one sentence, or an empty list."""
    return f"({condition} ? [{words}] : [])"


def unknown_word(holder: str, path: str, allowed: tuple[str, ...], hint: str = "") -> str:
    """The sentence about a word that is not allowed, as `Section.choice` has it."""
    wrong = f"{has(holder)} && {holder} != '' && !({holder} in {texts(allowed)})"
    hint = hint or f"use {', '.join(allowed)}"
    return when(wrong, sentence(f"{path}: '", f"={holder}", f"' is unknown; {hint}"))


def wrong_number(holder: str, path: str, most: int) -> str:
    """The sentence about a number that is out of range, as `Section.number` has it."""
    value = f"=string({holder})"
    low = sentence(f"{path}: is ", value, "; write 0 or more")
    high = sentence(f"{path}: is ", value, f"; write at most {most}")
    return (
        f"({has(holder)} ? {when(f'{holder} < 0', low)} + {when(f'{holder} > {most}', high)} : [])"
    )
