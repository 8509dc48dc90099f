"""Names of fields as CEL identifiers, and the parts of an expression that are not in quotes."""

from __future__ import annotations

import re
from functools import lru_cache

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*\Z")
# Triple quotes come first: otherwise they would be read as an empty text and the start of another.
_QUOTED = re.compile(
    r'[rRbB]{0,2}(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')',
    re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*")


def escape(name: str) -> str | None:
    """The identifier for a field in expressions; None if expressions cannot name the field."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _NAME.match(name):
        return None
    return re.sub(r"__|[./-]", lambda found: _ESCAPES[found[0]], name)


@lru_cache(maxsize=4096)
def without_text(expression: str) -> str:
    """The expression with empty quotes and without comments, for a search for names in it."""
    return _COMMENT.sub("", _QUOTED.sub("''", expression))


def masked(expression: str) -> str:
    """The expression with blanks in place of texts and comments: every place stays the same."""

    def blank(found: re.Match[str]) -> str:
        return " " * len(found[0])

    return _COMMENT.sub(blank, _QUOTED.sub(blank, expression))


@lru_cache(maxsize=4096)
def uses(expression: str, variable: str) -> bool:
    """Whether an expression refers to a variable."""
    return re.search(rf"(?<![.\w]){variable}\b", without_text(expression)) is not None


@lru_cache(maxsize=4096)
def fields_used(expression: str, variable: str) -> frozenset[str] | None:
    """The identifiers of the fields of a variable that an expression reads; None is all of it."""
    text = without_text(expression)
    fields = set()
    for found in re.finditer(rf"(?<![.\w]){variable}\b(?:\s*\.\s*\??\s*(\w+)(?!\s*\()\b)?", text):
        if found[1] is None:
            return None
        fields.add(found[1])
    return frozenset(fields)
