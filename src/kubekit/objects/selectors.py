"""Label selectors and field selectors, by Kubernetes' own rules.

The tests compare with vectors made by Kubernetes' parser. Selectors are compiled once; a match is a
few dictionary look-ups.

- `!=` and `notin` also match an object that lacks the key;
- no selector at all (None) matches nothing, an empty one matches everything;
- keys and values are checked when a selector is built, never while matching.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kubekit.errors import MusterError

if TYPE_CHECKING:
    from kubekit.objects.affinity import LabelSelector, SelectorRequirement

Labels: TypeAlias = Mapping[str, str]
Test: TypeAlias = Callable[[Labels], bool]
Fields: TypeAlias = Callable[[str], str]
"""The value of an object's field by its dotted path; "" if it has none."""

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_SETS = {"In": "in", "NotIn": "notin"}
_ORDERS = {"Gt": ">", "Lt": "<"}


class InvalidSelector(MusterError):
    """A label or field selector that Kubernetes rejects."""


def is_label_key(text: str) -> bool:
    """`name` or `dns.prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Empty, or at most 63 letters, digits, `-`, `_` and `.`; a letter or digit at either end."""
    return not text or _NAME.fullmatch(text) is not None


class Requirement(NamedTuple):
    """A requirement on one label. Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("Exists", "DoesNotExist"):
            return self.key if self.operator == "Exists" else f"!{self.key}"
        if self.operator in _ORDERS:
            return f"{self.key}{_ORDERS[self.operator]}{self.values[0]}"
        values = sorted(set(self.values))
        if len(values) == 1:
            return f"{self.key}{'=' if self.operator == 'In' else '!='}{values[0]}"
        return f"{self.key} {_SETS[self.operator]} ({','.join(values)})"

    def check(self) -> None:
        """Raise InvalidSelector unless Kubernetes would accept it."""
        if not is_label_key(self.key):
            raise InvalidSelector(f"{self.key!r} is not a label key")
        if self.operator in _SETS and not self.values:
            raise InvalidSelector(f"{self.key}: {self.operator} needs at least one value")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise InvalidSelector(f"{self.key}: {self.operator} takes no values")
        if self.operator in _ORDERS and (len(self.values) != 1 or integer(self.values[0]) is None):
            raise InvalidSelector(f"{self.key}: {self.operator} needs exactly one integer")
        for value in self.values:
            if not is_label_value(value):
                raise InvalidSelector(f"{self.key}: {value!r} is not a label value")

    def compiled(self) -> Test:
        """The requirement as a function of labels."""
        self.check()
        key, values = self.key, frozenset(self.values)
        match self.operator:
            case "In":
                return lambda labels: labels.get(key) in values
            case "NotIn":
                return lambda labels: labels.get(key) not in values
            case "Exists":
                return lambda labels: key in labels
            case "DoesNotExist":
                return lambda labels: key not in labels
            case "Gt" | "Lt":
                return _ordered(key, int(self.values[0]), above=self.operator == "Gt")
            case _:
                raise InvalidSelector(f"{self.key}: {self.operator!r} is not a selector operator")


def integer(text: str) -> int | None:
    """The int64 that Go's parser reads; None if it rejects the text."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _ordered(key: str, bound: int, *, above: bool) -> Test:
    def test(labels: Labels) -> bool:
        number = integer(labels.get(key, ""))
        if number is None:
            return False
        return number > bound if above else number < bound

    return test


class Selector:
    """A conjunction of requirements. `str` gives the form that kubectl and the API accept."""

    __slots__ = ("_tests", "requirements")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        # Sorted as in Kubernetes, so that equal selectors have equal texts.
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self._tests = tuple(requirement.compiled() for requirement in self.requirements)

    def matches(self, labels: Labels) -> bool:
        for test in self._tests:  # noqa: SIM110 - a generator would cost three times as much
            if not test(labels):
                return False
        return True

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


class _Nothing(Selector):
    """The selector of an object that has none. Its text is a syntax error, never "everything"."""

    __slots__ = ()

    def matches(self, labels: Labels) -> bool:
        return False

    def __str__(self) -> str:
        return "<nothing>"


NOTHING: Selector = _Nothing(())


def from_labels(selector: LabelSelector | None) -> Selector:
    """The structured form, as in disruption budgets, affinity and workloads."""
    if selector is None:
        return NOTHING
    equal = (Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    return Selector([*equal, *map(_set_based, selector.match_expressions)])


def _set_based(term: SelectorRequirement) -> Requirement:
    if term.operator in _ORDERS:  # only nodes are compared by size
        raise InvalidSelector(f"{term.key}: {term.operator!r} is not a label selector operator")
    return Requirement(term.key, term.operator, term.values)


# --- the text form: a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1 ---

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!<>(),]|[^ \t\r\n=!<>(),]+)")
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn"} | {
    sign: operator for operator, sign in _ORDERS.items()
}
_MARKS = frozenset(["==", "!=", "=", "!", "<", ">", "(", ")", ",", ""])


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> Selector:
    """The text form of kubectl's `-l` and the API's `labelSelector`."""
    return Selector(_Parser(text).requirements())


class _Parser:
    """A recursive descent with one token of look-ahead; "" is the token at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if self._peek() == "":
            return requirements
        while True:
            requirements.append(self._requirement())
            if self._peek() == "":
                return requirements
            self._expect(",")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._word(), "DoesNotExist")
        key = self._word()
        if self._peek() in (",", ""):
            return Requirement(key, "Exists")
        sign = self._next()
        operator = _OPERATORS.get(sign)
        if operator is None:
            raise self._unexpected(sign, "an operator")
        return Requirement(key, operator, self._set() if sign in _SETS.values() else self._value())

    def _set(self) -> tuple[str, ...]:
        self._expect("(")
        values: list[str] = []
        while True:
            values += self._value(ends=(",", ")"))
            if self._peek() == ")":
                self._next()
                return tuple(values)
            self._expect(",")

    def _value(self, ends: tuple[str, ...] = (",", "")) -> tuple[str]:
        """One value, which may be missing."""
        return ("",) if self._peek() in ends else (self._word(),)

    def _word(self) -> str:
        token = self._next()
        if token in _MARKS:
            raise self._unexpected(token, "a name")
        return token

    def _expect(self, mark: str) -> None:
        token = self._next()
        if token != mark:
            raise self._unexpected(token, repr(mark))

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _unexpected(self, token: str, expected: str) -> InvalidSelector:
        actual = repr(token) if token else "the end"
        return InvalidSelector(
            f"label selector {self._text!r}: expected {expected}, found {actual}"
        )


# --- field selectors: metadata.name=x,status.phase!=Running ---

_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_PARTS = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_VALUE = re.compile(r"(?:[^\\,=]|\\[\\,=])*", re.DOTALL)


class FieldSelector(NamedTuple):
    """A conjunction of (path, value, whether it must be equal). A missing field is ""."""

    terms: tuple[tuple[str, str, bool], ...]

    def matches(self, fields: Fields) -> bool:
        return all((fields(path) == value) is equal for path, value, equal in self.terms)

    @property
    def paths(self) -> frozenset[str]:
        """The fields it names, for a server that supports only some."""
        return frozenset(path for path, _, _ in self.terms)


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    """The text form of the API's `fieldSelector`; `\\` escapes `,`, `=` and itself."""
    terms = []
    for part in _PARTS.findall(text):
        match = _TERM.fullmatch(part)
        if match is None or not _VALUE.fullmatch(match[3]):
            raise InvalidSelector(f"field selector {text!r}: cannot parse {part!r}")
        path, operator, value = match[1], match[2], re.sub(r"\\(.)", r"\1", match[3])
        if path or value:  # "=" and "!=" alone select everything
            terms.append((path, value, operator != "!="))
    return FieldSelector(tuple(terms))
