"""`arena completion bash|zsh|fish`, and what the shell asks for when the user presses Tab.

The script that is printed calls the program again with `_ARENA_COMPLETE` set; `main` then comes
here. Promise: a question that cannot be answered (no cluster, say) completes nothing and says
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click import shell_completion

from muster.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """What a shell must read to complete this program's words."""
    completer = shell_completion.get_completion_class(shell)
    assert completer is not None, shell
    made = completer(click.Group(), {}, program, variable(program))
    # Not `source()`, which starts a shell to ask for its version.
    return made.source_template % made.source_vars()


def variable(program: str) -> str:
    return f"_{program.upper()}_COMPLETE"


def complete(program: str) -> int:
    """Answer the shell; the words are in its own variables."""
    from muster.cli.main import completing
    from muster.cli.verb_groups import RootGroup

    group = RootGroup(name=program)
    return shell_completion.shell_complete(
        group, {}, program, variable(program), completing(program)
    )


def job_names(ctx: click.Context, incomplete: str) -> list[str]:
    """Names of jobs that begin so, in the namespace that is meant so far."""
    from pathlib import Path

    from muster.client.jobs import lookup
    from muster.client.target import Target

    given = ctx.params
    path = Path(given["kubeconfig"]) if given.get("kubeconfig") else None
    where = Target(path, given.get("context"), given.get("namespace") or "")
    try:
        cluster = where.cluster()
        with cluster.connect() as client:
            jobs = lookup.list_names(client, where.namespace_in(cluster), given.get("type_") or "")
    except MusterError:
        return []
    return _beginning(jobs, incomplete)


def _beginning(words: Iterable[str], start: str) -> list[str]:
    return sorted({word for word in words if word.startswith(start)})
