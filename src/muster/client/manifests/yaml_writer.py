"""YAML for people: text of several lines as a block, no references, keys in their order.

Its output reads back as the same value, even if a text contains characters that YAML takes for line
breaks.

Kept apart because loading `yaml` is slow: quick verbs import this module only to print YAML.
"""

from __future__ import annotations

from typing import Any

import yaml

_BREAKS = "\r\x85\u2028\u2029\ufeff"
"""Characters that YAML would fold or drop unless they are escaped."""


class Dumper(yaml.SafeDumper):
    """Remembers the last text it wrote, since a block at the very end needs its line break."""

    last = ""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        self.last = text
        style = "|" if "\n" in text else None
        if any(mark in text for mark in _BREAKS) or text.endswith("\n\n"):
            style = '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, Dumper.text)


def dump(value: Any) -> str:
    """The value as YAML, without a line break at the end unless it belongs to the value."""
    dumpers: list[Dumper] = []

    def create(*args: Any, **kwargs: Any) -> Dumper:
        dumpers.append(Dumper(*args, **kwargs))
        return dumpers[-1]

    text: str = yaml.dump(
        value,
        Dumper=create,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
    )
    return text if dumpers[0].last.endswith("\n") else text.rstrip("\n")
