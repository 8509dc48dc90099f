"""The one reader of YAML: no input can crash or stall the process.

PyYAML composes nested values by recursion in C: 50 kB of `[` overflow the stack, which no `except`
can catch. A few lines of aliases stand for gigabytes. So the text is first read as a stream of
parse events, which needs no recursion, and its size, depth and number of values are compared with
limits. Only then are values made of it. Everything that cannot be read is a `YamlError`.

    yaml_reader.load(text)                          # one document, with PyYAML's safe loader
    yaml_reader.load_all(text, MyLoader, limits)    # all documents, with another loader
"""

from __future__ import annotations

import codecs
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C where PyYAML was built with it."""


class Limits(NamedTuple):
    """How much YAML is read."""

    size: int
    """Characters, or bytes if bytes are read."""
    values: int
    """Mappings, lists, keys and scalars in all documents; an alias counts as what it stands for."""
    depth: int = 100


OWN_FILE = Limits(size=64 << 20, values=1_000_000)
"""For a file of the person who waits for the result: takes some ten seconds at most."""
STRANGERS_TEXT = Limits(size=1 << 20, values=20_000)
"""For text that others send to a process which serves many: takes some tenths of a second."""

_NUMBER = 1000
"""Characters of a number. The time to read `1:1:1:…` grows with the square of its length."""
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TAG_LINES = 100
_TAG_LINE = re.compile("(?:^|[\n\r\x85\u2028\u2029])\ufeff?%TAG")
"""libyaml compares every such line with all lines before it, and reports no event in between."""


class YamlError(ValueError):
    """Text that cannot be read as YAML; `line` counts from 1 and is 0 if it is not known."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem, self.line = problem, line


class YamlTooLarge(YamlError):
    """More characters or values than the limits allow."""


def load(
    text: str | bytes,
    loader: Any = SafeLoader,
    limits: Limits = OWN_FILE,
    *,
    aliases: bool = True,
) -> Any:
    """The value of the one document; None if there is none."""
    with _clear_errors():
        return yaml.load(_checked(text, loader, limits, aliases), loader)


def load_all(text: str | bytes, loader: Any = SafeLoader, limits: Limits = OWN_FILE) -> list[Any]:
    """The values of all documents; an empty document is None."""
    with _clear_errors():
        return list(yaml.load_all(_checked(text, loader, limits, True), loader))


def compose(text: str | bytes, loader: Any = SafeLoader, limits: Limits = OWN_FILE) -> Any:
    """The node of the one document, which knows the places of keys; None if there is none."""
    with _clear_errors():
        return yaml.compose(_checked(text, loader, limits, True), loader)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        words = [error.problem or "it is not YAML"]
        if error.context and not error.context.startswith("while "):
            words.insert(0, error.context)  # `expected a single document in the stream`
        mark = error.problem_mark or error.context_mark
        raise YamlError(", ".join(words), mark.line + 1 if mark else 0) from None
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise YamlError(f"it is not Unicode text: {error.reason}") from None
    # What else PyYAML raises: for `!!bool x`, `!!int ''` and `!!timestamp x`; for `2001-99-99` and
    # `1:0:…:0.5`; for keys that are deeply nested lists.
    except (LookupError, AttributeError, TypeError) as error:
        raise YamlError("a value does not fit its tag") from error
    except (ValueError, ArithmeticError) as error:
        raise YamlError(f"a value cannot be read: {error}") from error
    except RecursionError:
        raise YamlError("it is nested too deeply") from None


def _checked(text: str | bytes, loader: Any, limits: Limits, aliases: bool) -> str:
    """The text, if it is within the limits."""
    if len(text) > limits.size:
        raise YamlTooLarge(f"it is larger than {limits.size >> 10} kB")
    if isinstance(text, bytes):
        wide = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = text.decode("utf-16" if wide else "utf-8")
    if "%TAG" in text and len(_TAG_LINE.findall(text)) > _TAG_LINES:
        raise YamlError(f"it has more than {_TAG_LINES} lines with %TAG")
    parser = loader(text)
    try:
        measure = _Measure(parser, limits, aliases)
        while parser.check_event():
            measure.add(parser.get_event())
    finally:
        parser.dispose()
    return text


class _Anchor(NamedTuple):
    """What an alias stands for."""

    values: int
    height: int


class _Open:
    """A mapping or list whose end has not been reached."""

    def __init__(self, anchor: str | None, before: int, depth: int) -> None:
        self.anchor, self.before, self.deepest = anchor, before, depth


class _Measure:
    """Counts values and levels, with aliases expanded, without expanding them."""

    def __init__(self, loader: Any, limits: Limits, aliases: bool) -> None:
        self._loader, self._limits, self._aliases = loader, limits, aliases
        self._values = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor | None] = {}

    def add(self, event: Any) -> None:
        """Take in the next event; raise YamlError once a limit is exceeded."""
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._count(event, 1, 1)
            if event.anchor is not None:
                self._anchors[event.anchor] = None
            self._open.append(_Open(event.anchor, self._values - 1, len(self._open) + 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()
            self._count(event, 1, 0)  # a million empty documents take time, too

    def _scalar(self, event: Any) -> None:
        self._count(event, 1, 0)
        if len(event.value) > _NUMBER:
            tag = event.tag
            if tag is None or tag == "!":
                tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            if tag in _NUMBERS:
                raise _error(event, f"a number has more than {_NUMBER} characters")
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(1, 0)

    def _end(self) -> None:
        done = self._open.pop()
        depth = len(self._open)
        if self._open:
            self._open[-1].deepest = max(self._open[-1].deepest, done.deepest)
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchor(self._values - done.before, done.deepest - depth)

    def _alias(self, event: Any) -> None:
        if not self._aliases:
            raise _error(event, "aliases are not accepted")
        if event.anchor not in self._anchors:
            raise _error(event, f"the alias *{event.anchor} has no anchor before it")
        target = self._anchors[event.anchor]
        if target is None:
            raise _error(event, f"*{event.anchor} contains itself")
        self._count(event, target.values, target.height)

    def _count(self, event: Any, values: int, height: int) -> None:
        self._values += values
        if self._values > self._limits.values:
            problem = f"it has more than {self._limits.values:,} values"
            raise YamlTooLarge(problem, event.start_mark.line + 1)
        if len(self._open) + height > self._limits.depth:
            raise _error(event, f"it is nested deeper than {self._limits.depth} levels")
        if height and self._open:
            self._open[-1].deepest = max(self._open[-1].deepest, len(self._open) + height)


def _error(event: Any, problem: str) -> YamlError:
    return YamlError(problem, event.start_mark.line + 1)
