"""The command line of a container: a shell, and the text that the user gave.

Kubernetes sends SIGTERM only to a container's first process. `sh -c "python train.py"` makes that
the shell, because dash (the `sh` of Debian and Ubuntu) starts python as a child: a SIGTERM handler
that saves a checkpoint would never run. With `exec`, python takes the shell's place. `exec` changes
the meaning of anything but one program with its arguments (`exec cd x`, `exec A=1 python`, `exec a;
b`), so it is added only if the text surely is that; in doubt the text stays as it is.
"""

from __future__ import annotations

import re

SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})

_RESERVED_WORDS = """
case coproc do done elif else end esac fi for foreach function if in nocorrect noglob repeat select
then time until while
"""
_BUILTINS = """
alias autoload bg bind break builtin caller cd chdir command compgen complete compopt continue
declare dirs disown echo emulate enable eval exec exit export false fc fg float functions getopts
hash help history integer jobs kill let limit local logout mapfile nameref newgrp popd print printf
pushd pwd read readarray readonly return sched set setopt shift shopt source suspend test times
trap true type typeset ulimit umask unalias unfunction unlimit unset unsetopt wait whence where
which zmodload
"""
"""Of all these shells; also those that exist as programs too."""
_NO_PROGRAMS = frozenset(f"{_RESERVED_WORDS} {_BUILTINS}".split())
_PROGRAM = re.compile(r"\w[\w.+-]*")
_VARIABLE = re.compile(r"\$(\w|\{\w+\}|[@*#?$!-])")
_QUOTED = re.compile(r"'[^']*'")
_REDIRECTION = re.compile(r"(?<!\\)[<>]\Z")
_SYNTAX = frozenset(";&|()`\n#")


def shell_command(shell: str, text: str) -> list[str]:
    """The words that run `text` in this shell; a simple command gets the shell's place."""
    known = shell.rpartition("/")[2] in SHELLS
    return [shell, "-c", f"exec {text.strip()}" if known and is_simple(text) else text]


def is_simple(text: str) -> bool:
    """Whether the text surely is one program with arguments and redirections."""
    words = _first_word_and_rest(text.strip())
    if words is None:
        return False
    first, rest = words
    if first.startswith("-") or "=" in first or rest[:1] in ("<", ">"):
        return False
    # A path is neither a builtin nor a reserved word, whatever its variables contain.
    if "/" in first:
        return True
    return bool(_PROGRAM.fullmatch(first)) and first not in _NO_PROGRAMS


def _first_word_and_rest(text: str) -> tuple[str, str] | None:
    """The first word as it is written, and the text after it; None if there is shell syntax."""
    position, double, end = 0, False, len(text)
    first_end: int | None = None
    while position < end:
        length = _length_of_token(text, position, double=double)
        if length is None:
            return None
        char = text[position]
        if char == '"':
            double = not double
        if first_end is None and not double and (char.isspace() or char in "<>"):
            first_end = position
        position += length
    if double or not text:
        return None
    first_end = end if first_end is None else first_end
    return text[:first_end], text[first_end:]


def _length_of_token(text: str, position: int, *, double: bool) -> int | None:
    """How many characters belong together here; None if they are shell syntax, or may be."""
    char = text[position]
    if char == "\\":
        return 2 if position + 1 < len(text) else None
    if char == "$":
        # `$(…)`, `$'…'` and `${a:-b}` have quoting rules of their own.
        match = _VARIABLE.match(text, position)
        return match.end() - position if match else None
    if char == "`":
        return None
    if double:
        return 1
    if char == "'":
        match = _QUOTED.match(text, position)
        return match.end() - position if match else None
    if char == "&" and _REDIRECTION.search(text, 0, position):  # 2>&1
        return 1
    if char == "#" and not text[position - 1 : position].isspace():  # a#b is no comment
        return 1 if position else None
    return None if char in _SYNTAX else 1
