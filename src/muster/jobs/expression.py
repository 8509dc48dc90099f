"""Random text by OpenShift's expressions: `user-[a-z0-9]{4}` becomes `user-x3k9`.

Called by `template.py` for parameters with `generate: expression`. Pure: randomness is an argument.
This is not a regular expression: only `[ranges]{count}` means something, all else is itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from muster.errors import UsageError

if TYPE_CHECKING:
    from random import Random

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"
_ORDER = _LETTERS + _DIGITS
_CLASSES = {
    "w": _LETTERS + _DIGITS + "_",
    "d": _DIGITS,
    "a": _LETTERS,
    "A": "~!@#$%^&*()-_+={}[]\\|<,>.?/\"';:`",
}
_RANDOM = re.compile(r"\[([^\[\]]*)\]\{([0-9]+)\}")
_PART = re.compile(r"\\(?P<kind>[wdaA])|(?P<low>[a-zA-Z0-9])-(?P<high>[a-zA-Z0-9])|[a-zA-Z0-9]")
_MOST = 255


def expand(expression: str, random: Random) -> str:
    r"""Text for `generate: expression`: every `[ranges]{count}` becomes so many random characters.

    Ranges may be `a-z`, `A-Z`, `0-9` and parts of these, `\w`, `\d`, `\a` (letters) and `\A`
    (symbols); what stands outside the brackets stays as it is.
    """

    def draw(found: re.Match[str]) -> str:
        count = int(found[2]) if len(found[2]) <= 4 else _MOST + 1
        if not 1 <= count <= _MOST:
            raise UsageError(f"{found[0]}: the count must be from 1 to {_MOST}")
        alphabet = _alphabet(found[1])
        return "".join(random.choice(alphabet) for _ in range(count))

    return _RANDOM.sub(draw, expression)


def _alphabet(ranges: str) -> str:
    letters, position = "", 0
    while position < len(ranges):
        part = _PART.match(ranges, position)
        if part is None:
            raise UsageError(
                f"[{ranges}]: {ranges[position:]!r} is no range",
                hint=r"Write ranges such as a-z, A-Z, 0-9, or \w, \d, \a, \A.",
            )
        letters += _letters(part)
        position = part.end()
    if not letters:
        raise UsageError("[]: no characters to choose from")
    return "".join(dict.fromkeys(letters))


def _letters(part: re.Match[str]) -> str:
    if part["kind"]:
        return _CLASSES[part["kind"]]
    low, high = part["low"] or part[0], part["high"] or part[0]
    letters = _ORDER[_ORDER.index(low) : _ORDER.index(high) + 1]
    if not letters:
        raise UsageError(f"{low}-{high} is a range the wrong way round")
    return letters
