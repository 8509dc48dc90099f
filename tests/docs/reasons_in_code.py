"""Every reason that Muster writes, found in its source: why jobs wait, of conditions, of events.

A reason is an argument of a few functions and classes, listed here. It is a constant, a choice of
two, a name whose value is known, or an f-string. An expression that is none of these must be in
`PASSED_ON`: it hands on a reason that is found elsewhere, or that Kubernetes wrote.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.repository import ROOT

SOURCE = ROOT / "src"
PLACES = (
    "kubekit/objects/conditions.py",
    "kubekit/objects/pod_status.py",
    "localkube/apiserver/housekeeping.py",
    "localkube/apiserver/kinds/pods.py",
    "localkube/controllers/node_lifecycle.py",
    "localkube/node/**/*.py",
    "muster/contract/*.py",
    "muster/jobs/**/*.py",
    "muster/local_daemon.py",
    "muster/models/*.py",
    "muster/operator/**/*.py",
    "muster/scheduler/**/*.py",
)
"""Without the controllers of Deployments and batch Jobs, which use the words of Kubernetes."""
ARGUMENT = {
    "EmitEvent": 0, "EventText": 0, "Waiting": 0, "Reason": 0, "WaitingReason": 0,
    "JobCondition": 2, "with_condition": 3, "new_condition": 2, "disruption_condition": 0,
    "disruption_status": 0, "record": 1, "record_once_per_owner": 1,
}  # fmt: skip
"""Where the reason stands among the arguments."""
OWN_ARGUMENT = {"muster.contract": {"_condition": 2}, "muster.scheduler": {"Delete": 3}}
"""The same for names that mean something else in other packages."""
SUFFIX_ARGUMENT = {"_set_condition": 0, "_emit": 0, "_end": 0}
"""Functions that put the job's kind before this argument."""
PASSED_ON = {
    "f'{job.kind}{type_}'", "f'{self.job.kind}{suffix}'", "f'{self.job.kind}{type_}'",
    "_SAME_PROBLEM.get(state.reason, state.reason)", "attempt.reason",
    "cells.text(pod, 'status.phase')", "delete.reason", "event",
    "key[1]", "parked.reason.code", "reason", "reason or None", "reason_if_false", "row.reason",
    "waiting.reason",
}  # fmt: skip


@cache
def reasons() -> frozenset[str]:
    """Regular expressions of all reasons; `Kind` stands for a kind of job.

    An expression that is not understood and not in `PASSED_ON` is there with a question mark.
    """
    found: set[str] = set()
    for place in PLACES:
        for path in sorted(SOURCE.glob(place)):
            module = importlib.import_module(_name(path))
            tree = ast.parse(path.read_text())
            for function in _functions(tree):
                for expression in _reason_expressions(function, module.__name__):
                    found |= _resolve(expression, function, module)
    return frozenset(found)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The functions and methods, and the module for what stands outside of them."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    yield from functions
    yield ast.Module([n for n in tree.body if id(n) not in inner], [])


def _reason_expressions(function: ast.AST, module: str) -> Iterator[ast.expr]:
    positions = ARGUMENT | OWN_ARGUMENT.get(".".join(module.split(".")[:2]), {})
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from _at(node.args, positions.get(name))
            for suffix in _at(node.args, SUFFIX_ARGUMENT.get(name)):
                if isinstance(suffix, ast.Constant):
                    yield ast.Constant("Kind" + ast.literal_eval(suffix))
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in pairs if _is_reason(key))
        elif isinstance(node, ast.Tuple) and _is_warning(node, module):
            yield node.elts[0]


def _at(arguments: list[ast.expr], position: int | None) -> list[ast.expr]:
    """The argument at this position, if there is one."""
    return arguments[position : position + 1] if position is not None else []


def _is_warning(node: ast.Tuple, module: str) -> bool:
    """Whether this is a warning about a job that is parsed: a pair of a reason and a message."""
    others = [ast.unparse(each) for each in node.elts[1:]]
    is_value = isinstance(node.ctx, ast.Load)
    return is_value and others == ["message"] and module.startswith("muster.jobs")


def _is_reason(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "reason"


def _resolve(expression: ast.expr, function: ast.AST, module: ModuleType) -> set[str]:
    text = ast.unparse(expression)
    if text in PASSED_ON and not _assigned(text, function):
        return set()
    if isinstance(expression, ast.IfExp):
        both = (expression.body, expression.orelse)
        return set().union(*(_resolve(each, function, module) for each in both))
    if isinstance(expression, ast.JoinedStr):
        return {"".join(map(_part, expression.values))}
    if text.startswith("EventText("):
        return set()  # found by itself
    if values := _assigned(text, function):
        return set().union(*(_resolve(each, function, module) for each in values))
    try:
        value = eval(text, vars(module))  # our own source
    except (NameError, AttributeError):
        return {f"?{text} in {module.__name__}"}
    return {re.escape(value)} if isinstance(value, str) and value else set()


def _assigned(name: str, function: ast.AST) -> list[ast.expr]:
    """The expressions that the function assigns to this name."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    return [node.value for node in nodes if name in map(ast.unparse, node.targets)]


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    return "Kind" if "job.kind" in ast.unparse(part) else "[A-Z][A-Za-z]+"
