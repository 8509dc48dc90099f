"""The functions by which a policy asks whether the caller may do something else.

An authorizer, and each question that is built from it, is a map. `check` asks: the answer comes
from whoever evaluates the expression (see `asking`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localkube.apiserver.cel.functions.signatures import Implementation

Question = dict[str, str]
Ask = Callable[[Question], tuple[bool, str]]
"""From a question to its answer: whether it is allowed, and the reason."""


def nobody(question: Question) -> tuple[bool, str]:
    """No answer: only policies have an authorizer."""
    raise ValueError("there is no authorizer here")


_ask: ContextVar[Ask] = ContextVar("ask", default=nobody)


@contextmanager
def asking(ask: Ask) -> Iterator[None]:
    """Answer the questions of the expressions that are evaluated meanwhile."""
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


def _with(field: str) -> Callable[[Question, str], Question]:
    return lambda question, value: {**question, field: value}


def _service_account(question: Question, namespace: str, name: str) -> Question:
    return {**question, "serviceAccount": f"{namespace}/{name}"}


def _check(question: Question, verb: str) -> dict[str, Any]:
    allowed, reason = _ask.get()({**question, "verb": verb})
    return {"allowed": allowed, "reason": reason}


FUNCTIONS: dict[str, Implementation] = {
    "Authorizer.path(string) -> PathCheck": _with("path"),
    "Authorizer.group(string) -> GroupCheck": _with("group"),
    "Authorizer.serviceAccount(string, string) -> Authorizer": _service_account,
    "GroupCheck.resource(string) -> ResourceCheck": _with("resource"),
    "ResourceCheck.subresource(string) -> ResourceCheck": _with("subresource"),
    "ResourceCheck.namespace(string) -> ResourceCheck": _with("namespace"),
    "ResourceCheck.name(string) -> ResourceCheck": _with("name"),
    # Roles know no selectors: an access to some objects needs the right to all.
    "ResourceCheck.fieldSelector(string) -> ResourceCheck": lambda question, selector: question,
    "ResourceCheck.labelSelector(string) -> ResourceCheck": lambda question, selector: question,
    "PathCheck.check(string) -> Decision": _check,
    "ResourceCheck.check(string) -> Decision": _check,
    "Decision.allowed() -> bool": lambda decision: decision["allowed"],
    "Decision.reason() -> string": lambda decision: decision["reason"],
    "Decision.errored() -> bool": lambda decision: False,
    "Decision.error() -> string": lambda decision: "",
}
