"""The entry points `arena` and `muster`: find the verb, run it, turn an error into an exit code.

The two names are one program. Verbs are imported when used, and plain `--help` is answered from
the verb table without importing click, so that it costs little more than starting Python. There is
no traceback without `--debug`; every MusterError has its own exit code.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, NoReturn

from muster.cli.verb_table import ALIASES, VERBS, Tracebacks, completion_instruction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import click


def arena() -> None:
    """Entry point of the `arena` command."""
    _enter("arena")


def muster() -> None:
    """Entry point of the `muster` command."""
    _enter("muster")


def _enter(program: str) -> NoReturn:
    """Run the program and exit."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_streams()
    code = run(program, sys.argv[1:])
    gc.freeze()  # Python would search for cycles once more, in a process that ends anyway
    sys.exit(code)


def _open_streams() -> None:
    """Open closed streams (`>&-`) on /dev/null, before a connection or file gets their number."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def run(program: str, argv: Sequence[str], clock: Callable[[], datetime] | None = None) -> int:
    """Run one command line and return its exit code. The clock is this machine's by default."""
    if completion_instruction(program):
        from muster.cli.verb_groups import complete

        return complete(program)
    words, Tracebacks.shown = _without_debug(list(argv))
    try:
        code = _answer(program, words, clock)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 - the one place that ends the program
        return _report(error, debug=Tracebacks.shown)
    return code


def _without_debug(words: list[str]) -> tuple[list[str], bool]:
    """The words without `--debug`, and whether it was there; the user's command keeps its own.

    Only the parser of `submit` knows where the training command begins, so it reads `--debug` too.
    """
    end = words.index("--") if "--" in words else len(words)
    verb = next((word for word in words if any(word == verb.name for verb in VERBS)), "")
    if verb == "submit":
        end = words.index(verb)
    plain = [word for word in words[:end] if word != "--debug"]
    return plain + words[end:], len(plain) < end


def _answer(program: str, argv: list[str], clock: Callable[[], datetime] | None) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview(program))
        return 0
    return _dispatch(program, ["version"] if argv[0] == "--version" else argv, clock)


def overview(program: str) -> str:
    """The help page of the program: verbs by section, then examples."""
    lines = [f"Usage: {program} VERB [OPTIONS] [ARGS]", ""]
    lines += ["Gang-scheduled distributed training, on this machine or on any Kubernetes cluster."]
    width = max(len(verb.name) for verb in VERBS) + 2
    for section in dict.fromkeys(verb.section for verb in VERBS):
        lines += ["", f"{section}:"]
        lines += [f"  {v.name:<{width}}{v.help}" for v in VERBS if v.section == section]
    lines += [
        "",
        "Examples:",
        f"  {program} up --nodes 2 --gpus-per-node 1 --detach",
        f'  {program} submit tf --name=hello --workers=2 --gang "python train.py"',
        f"  {program} get hello",
        f"  {program} logs -f hello",
        "",
        f"`{program} VERB --help` shows its flags; `--debug` shows tracebacks.",
    ]
    return "\n".join(lines)


def _dispatch(program: str, argv: list[str], clock: Callable[[], datetime] | None) -> int:
    gc.set_threshold(50_000)  # most objects of a command live until its end
    import click

    from muster.cli.verb_groups import RootGroup

    group = RootGroup(name=program, help="Gang-scheduled distributed training.", clock=clock)
    if argv[0].startswith("-"):
        from muster.cli.options import allow_before_verb

        allow_before_verb(group)
    try:
        # Not `group.main`, which would end the program by itself when a pipe is closed.
        with group.make_context(program, argv) as context:
            group.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        return _usage_error(program, error)
    return 0


def _usage_error(program: str, error: click.ClickException) -> int:
    import click

    from muster.cli.show.messages import print_to_stderr

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print_to_stderr(error.format_message())
        return 2
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else program
    print_to_stderr(f"error: {_habit_hint(command, error) or error.format_message()}")
    print_to_stderr(f"see: {command} --help")
    return 2


def _habit_hint(command: str, error: click.ClickException) -> str:
    """A hint for a flag or verb borrowed from another CLI; empty if there is none."""
    import click

    from muster.cli.other_programs import FLAG_HABITS, NO_NAME

    word = (*command.split(), "")[1]
    verb = ALIASES.get(word, word)
    if isinstance(error, click.NoSuchOption):
        hint = FLAG_HABITS.get((verb, error.option_name), "")
        return hint and f"No such option {error.option_name!r}: {hint}."
    if isinstance(error, click.MissingParameter) and verb in NO_NAME:
        return f"{error.format_message().rstrip('.')}: {NO_NAME[verb]}."
    return ""


def _report(error: Exception, *, debug: bool) -> int:
    from contextlib import suppress

    from kubekit.errors import MusterError
    from muster.cli.show.messages import print_bug, print_error

    with suppress(OSError):
        sys.stdout.flush()  # the output before the error comes first in a pipe, too
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, MusterError):
        print_error(str(error), error.hint)
        return error.cli_exit_code
    if isinstance(error, OSError) and _is_output_error(error):
        _silence_stdout()
        print_error(f"the output cannot be written: {error.strerror}")
        return 1
    if not debug:
        print_bug(error)
    return 1


def _is_output_error(error: OSError) -> bool:
    """Whether the error means that the output could not be written."""
    import errno

    # A failed write to an open stream names no file; an error about another file does.
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    return error.errno in codes and error.filename is None


def _silence_stdout() -> None:
    """Point stdout at /dev/null, so that Python's flush at exit does not fail again."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
