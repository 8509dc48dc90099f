"""`arena completion bash|zsh|fish`: the script that completes words in the shell.

The script calls the program again with `_ARENA_COMPLETE` set; `verb_groups.complete` answers.
"""

from __future__ import annotations

import click
from click import shell_completion

from muster.cli.verb_table import completion_variable

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes verbs, flags and job names.

    \b
    Examples:
      source <(arena completion bash)
      source <(arena completion zsh)
      arena completion fish > ~/.config/fish/completions/arena.fish
    """
    print(script(ctx.find_root().info_name or "arena", shell))


def script(program: str, shell: str) -> str:
    """The lines that a shell must read to complete this program's words."""
    completer = shell_completion.get_completion_class(shell)
    assert completer is not None, shell
    source = completer(click.Group(), {}, program, completion_variable(program))
    # Not click's `source()`: it starts a shell to ask for its version.
    return source.source_template % source.source_vars()
