"""`arena submit KIND`: build a job from flags, or take it from a file, and create it.

`table` and `kinds` are the flags, `fill` adds what they leave open, `jobs/build` makes the
objects, `orders` prints or sends them and `transaction` sends all or nothing.
"""

from __future__ import annotations

import click

from muster.cli.cluster import Where, cluster_options
from muster.cli.submit import kinds, orders
from muster.cli.verbs import SubVerbs
from muster.errors import UsageError
from muster.jobs import build


@click.group(
    name="submit", cls=SubVerbs, aliases=build.ALIASES, invoke_without_command=True,
    no_args_is_help=False,
)  # fmt: skip
@click.option(
    "--filename", "-f", "file", metavar="FILE|-",
    help="Submit the job of a file: a manifest, or flags as YAML.",
)  # fmt: skip
@click.option(
    "--set", "changes", multiple=True, metavar="PATH=VALUE",
    help="With -f: change a field first.  [repeatable]",
)  # fmt: skip
@orders.options
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    where: Where,
    file: str | None,
    changes: tuple[str, ...],
    order: orders.Order,
) -> None:
    """Submit a training job.

    A file holds a job's manifest, or the flags of `submit KIND` as YAML with `kind` and `command`:

    \b
      kind: tf
      name: hello
      image: python:3.12
      workers: 2
      env: {EPOCHS: 3}
      command: python train.py

    \b
    Examples:
      arena submit tf --name=hello --image=python:3.12 --gang --workers=2 "python train.py"
      arena submit -f job.yaml --set workers=4 --set env.EPOCHS=5 --wait
    """
    if ctx.invoked_subcommand is not None:
        if file or changes or order != orders.Order():
            raise UsageError(
                f"options between `submit` and `{ctx.invoked_subcommand}` are for `submit -f`",
                hint=f"Write them after: arena submit {ctx.invoked_subcommand} …",
            )
        _hand_down(ctx, where)
        return
    if file is not None:
        from muster.cli.submit import files

        files.submit(file, changes, where, order)
        return
    if changes:
        raise UsageError("--set is for `submit -f FILE`")
    if order != orders.Order():
        raise UsageError("there is no job to submit", hint="Name a kind, or a file with -f.")
    click.echo(ctx.get_help())


def _hand_down(ctx: click.Context, where: Where) -> None:
    """Let `submit -n team tf …` mean what `submit tf -n team …` does."""
    said = {
        "namespace": where.namespace or None,
        "kubeconfig": str(where.kubeconfig) if where.kubeconfig else None,
        "context": where.context,
    }
    root = ctx.find_root()
    root.obj = (root.obj or {}) | {name: value for name, value in said.items() if value}


for _type in build.BY_TYPE:
    command.add_command(kinds.command(_type))
