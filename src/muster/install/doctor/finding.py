"""One result of a check."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True):
    """What a check found, and the smallest fix: a command, or a rule for a role."""

    check: str
    level: Level
    text: str
    fix: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def warning(check: str, text: str, fix: str = "") -> Finding:
    return Finding(check, "warning", text, fix)


def error(check: str, text: str, fix: str) -> Finding:
    """Something that keeps jobs from running; it always has a fix."""
    return Finding(check, "error", text, fix)
