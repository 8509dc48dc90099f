"""The base of all errors that are raised on purpose, and how they are worded.

`str(error)` is one clear sentence, and `cli_exit_code` is the exit code of a command that ends with
the error. Every room has its errors beside the code that raises them; those of requests to an API
server are in `request_errors.py`. Imports nothing else of ours.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.rights import MissingRight


class MusterError(Exception):
    """The root. `str(error)` is one clear sentence; `hint`, if any, is the next step."""

    cli_exit_code: ClassVar[int] = 1
    """The exit code of a command that ends with this error."""
    missing_right: MissingRight | None = None
    """Who lacks which right, if that is the reason."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def hint(self) -> str:
        return self._hint

    @hint.setter
    def hint(self, hint: str) -> None:
        self._hint = hint
        self.__notes__ = [hint] if hint else []  # Python prints it below the message


class ConfigError(MusterError):
    """A configuration file cannot be used."""

    cli_exit_code = 2


class UsageError(MusterError):
    """The user asked for something impossible."""

    cli_exit_code = 2


class Bug(MusterError):
    """An invariant of Muster is broken."""


def single_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error inside nested groups, or the group if there are several.

    A task group wraps even a single failure; callers want to catch the failure itself.
    """
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def describe(error: Exception) -> str:
    """The message of an error; for an OSError, the system's text and the file it concerns."""
    if not isinstance(error, OSError) or error.errno is None or error.errno <= 0:
        return str(error) or type(error).__name__
    message = os.strerror(error.errno)
    return f"{message}: {os.fsdecode(error.filename)}" if error.filename else message


def no_such(noun: str, given: str, known: Iterable[str]) -> str:
    """`no such verb: gett; did you mean get?`"""
    similar = nearest(given, known)
    return f"no such {noun}: {given}" + (f"; did you mean {similar}?" if similar else "")


def nearest(given: str, known: Iterable[str]) -> str:
    """The most similar known word; empty if none is similar."""
    import difflib  # slow to load and rarely needed

    return next(iter(difflib.get_close_matches(given, list(known), n=1)), "")
