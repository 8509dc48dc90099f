"""The messages of errors and the lines of logs in the source, with `…` for what is filled in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.repository import ROOT

SOURCE = ROOT / "src"
LEVELS = ("warning", "error", "exception", "critical")


@cache
def texts() -> frozenset[str]:
    """Every text in the source."""
    nodes = (node for tree in map(_tree, SOURCE.rglob("*.py")) for node in ast.walk(tree))
    kinds = ast.Constant | ast.JoinedStr
    return frozenset(_text(node) for node in nodes if isinstance(node, kinds))


def messages_of(error: str) -> set[str]:
    """The messages of an error class; those that another function words are not among them."""
    calls = _calls(SOURCE.rglob("*.py"), error)
    found = {_text(call.args[0]) for call in calls if call.args}
    return {text for text in found if re.search("[a-z]", text)}


def log_lines(*places: str) -> set[str]:
    """The warnings and errors that modules below these paths log; lines without words left out."""
    files = [path for place in places for path in _modules(SOURCE / place)]
    calls = [call for level in LEVELS for call in _calls(files, level) if _is_logger(call.func)]
    lines = {re.sub(r"%[.\d]*[a-z]", "…", ast.literal_eval(call.args[0])) for call in calls}
    return lines - {"…"}


def _modules(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def _calls(files: Iterable[Path], name: str) -> list[ast.Call]:
    nodes = (node for tree in map(_tree, files) for node in ast.walk(tree))
    return [node for node in nodes if isinstance(node, ast.Call) and _name(node.func) == name]


def _name(function: ast.expr) -> str:
    name: str = getattr(function, "id", getattr(function, "attr", ""))
    return name


def _is_logger(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _name(function.value) in ("log", "_log")


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "…"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
