"""What `submit` does with a job once it is understood: print it, check it, create it, wait for it.

Called by the commands of `kinds` and by `submit -f`. Objects go straight to the API: no helm, no
kubectl, no temporary files. The lines on stdout are arena's.

`arena submit KIND`: build a job from flags, or take it from a file, and create it.

`table` and `kinds` are the flags, `fill` adds what they leave open, `jobs/build` makes the
objects, `orders` prints or sends them and `transaction` sends all or nothing.

The click commands `submit tf`, `submit mpi`, …, made from the tables of flags.
"""

from __future__ import annotations

import functools
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.api.meta import object_name
from muster.cli import arena_parser
from muster.cli.options import cluster_options
from muster.cli.show import progress
from muster.cli.show.messages import arena_info, note
from muster.cli.show.table import json_or_yaml
from muster.cli.verb_groups import AliasGroup
from muster.client.jobs.waiting import JobWatch
from muster.client.manifests.apply import DRY_RUN_SUFFIX, as_list, check_namespace
from muster.client.submit import defaults, flag_table, mlflow
from muster.client.submit.transaction import Transaction, submission_record
from muster.client.target import Target, find_cluster, find_or_start_cluster
from muster.errors import UsageError
from muster.jobs import submission
from muster.jobs import submission as build
from muster.jobs.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.meta import Raw
    from muster.client.target import Cluster, Target
    from muster.kube.blocking_client import BlockingClient


F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True)
class SubmitOptions:
    """What the user wants done."""

    dry_run: str = "none"
    output: str = ""
    wait: bool = False
    watch: bool = False


def submit_options(command: F) -> F:
    """The options of every `submit` that are not about the job; the command gets an `order`."""

    @functools.wraps(command)
    def wrapped(
        *args: Any, dry_run: str, output: str | None, wait: bool, watch: bool, **kwargs: Any
    ) -> Any:
        if dry_run != "none" and (wait or watch):
            raise UsageError("--dry-run creates nothing that could be waited for")
        return command(*args, order=SubmitOptions(dry_run, output or "", wait, watch), **kwargs)

    for option in (
        click.option("--watch", is_flag=True, help="Wait, and tell of every instance."),
        click.option(
            "--wait", is_flag=True, help="Wait for the end; exit code 10 if the job fails."
        ),
        click.option(
            "--output", "-o", type=click.Choice(["yaml", "json", "name"]), default=None,
            help="Print the objects instead of a line each.",
        ),
        click.option(
            "--dry-run", type=click.Choice(["none", "client", "server"]), default="none",
            is_flag=False, flag_value="client", metavar="[client|server]",
            help="client: print only. server: let the cluster check, keep nothing.",
        ),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def submit_flags(
    kind: type[submission.Submission], given: dict[str, Any], target: Target, order: SubmitOptions
) -> None:
    """Build a job from what was given and do with it as ordered."""
    said = defaults.with_defaults(kind, given)
    args = kind(**said)
    if args.model_name:
        mlflow.check()
    submission.bundle(
        args, submission.Site(local=True, files=defaults.config_files(args))
    )  # refuse before any cluster
    for sentence in submission.flags_without_effect(args):
        note(sentence)
    cluster = _cluster(target, order)
    namespace = _namespace(target, cluster)
    site = defaults.make_site(args, local=cluster is None or cluster.local)
    if cluster is None or order.dry_run == "client":
        _show_dry_run(submission.bundle(args, site), order)
        return
    with cluster.connect() as client:
        defaults.check_priority(client, args)
        site = replace(site, user=defaults.submitting_user(client))
        job = _create(client, submission.bundle(args, site), namespace, order)
        if args.model_name and order.dry_run == "none":
            mlflow.register(args.model_name, args.model_source, args.name)
        _wait(client, job, order)


def submit_manifest(bundle: submission.Bundle, target: Target, order: SubmitOptions) -> None:
    """Do as ordered with a job that is already written."""
    cluster = _cluster(target, order)
    own = check_namespace(bundle.job, target.namespace)["metadata"].get("namespace")
    namespace = own or _namespace(target, cluster)
    if cluster is None or order.dry_run == "client":
        _show_dry_run(bundle, order)
        return
    with cluster.connect() as client:
        _wait(client, _create(client, bundle, namespace, order), order)


def _cluster(target: Target, order: SubmitOptions) -> Cluster | None:
    """The cluster to talk to. A dry run starts none, and on the client needs none."""
    if order.dry_run == "client":
        return find_cluster(target)
    if order.dry_run == "server":
        return target.cluster()
    cluster = find_or_start_cluster(target, note)
    note(str(cluster))
    return cluster


def _namespace(target: Target, cluster: Cluster | None) -> str:
    return target.namespace_in(cluster) if cluster else target.namespace or "default"


def _create(
    client: BlockingClient, bundle: submission.Bundle, namespace: str, order: SubmitOptions
) -> Raw:
    """Make everything, say so, and give back the job as the server has it."""
    with Transaction(client, namespace, dry=order.dry_run == "server") as made:
        made.submit(bundle)
    word = f"created{DRY_RUN_SUFFIX.get(order.dry_run, '')}"
    if order.output:
        _show([*made.extras, made.job], order)
        return made.job
    how, *extras = made.extras
    print(f"{object_name(how)} {word}")
    if order.dry_run == "none":
        print(f"{object_name(how)} labeled")
    for item in (*extras, made.job):
        print(f"{object_name(item)} {word}")
    if order.dry_run == "none":
        name, type_ = bundle.job["metadata"]["name"], bundle.job["kind"].lower()
        arena_info(f"The Job {name} has been submitted successfully")
        arena_info(
            f"You can run `arena get {name} --type {type_} -n {namespace}` to check the job status"
        )
    return made.job


def _show_dry_run(bundle: submission.Bundle, order: SubmitOptions) -> None:
    """Show all that would be made."""
    _show([submission_record(bundle.job), *bundle.extras, bundle.job], order)


def _show(items: Sequence[Raw], order: SubmitOptions) -> None:
    if order.output == "name":
        for item in items:
            print(object_name(item))
    else:
        print(json_or_yaml(as_list(items), order.output or "yaml"))


def _wait(client: BlockingClient, job: Raw, order: SubmitOptions) -> None:
    if order.wait or order.watch:
        vigil = JobWatch(client, JOB_KIND_BY_NAME[job["kind"]].resource, job)
        progress.until_finished(
            vigil.look, instances=order.watch, sleep=vigil.wait, keeps_logs=vigil.keeps_logs
        )


_EXAMPLES = {
    "tfjob": ("a TensorFlow job", "tf", '--ps=1 --workers=2 "python train.py"'),
    "mpijob": ("an MPI job", "mpi, mj", '--workers=2 "mpirun python train.py"'),
    "pytorchjob": ("a PyTorch job", "pytorch", '--workers=2 "torchrun train.py"'),
    "jaxjob": ("a JAX job", "jax", '--workers=2 "python train.py"'),
}


def type_command(type_: str) -> click.Command:
    """`submit TYPE`."""
    what, other, example = _EXAMPLES[type_]
    submission = build.BY_TYPE[type_]

    def submit(target: Target, words: tuple[str, ...], order: SubmitOptions, **given: Any) -> None:
        submit_flags(submission, {**given, "command": words}, target, order)

    submit.__doc__ = f"""Submit {what} (also: submit {other}).

    All words that are no flags are the training command; they are joined and run by --shell.

    \b
    Example:
      arena submit {other.partition(",")[0]} --name=hello --image=python:3.12 --gang {example}
    """
    made: Any = cluster_options(submit)
    made = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND")(made)
    made = submit_options(made)
    known = {field.name: field.default for field in fields(submission)}
    for row in reversed(flag_table.flags(type_)):
        made = _option(row, known[row.field])(made)
    return click.command(name=type_, cls=arena_parser.ArenaCommand)(made)


def _option(row: flag_table.Flag, default: object) -> Callable[[Any], Any]:
    how: dict[str, Any] = {"help": row.help, "cls": arena_parser.ArenaOption, "old": row.old}
    if isinstance(default, bool):
        switch = f"{row.spelling}/--no-{row.spelling.lstrip('-')}"
        # None tells a switch that was not written from one that was switched off.
        return click.option(switch, row.field, default=None, **how)
    spellings = [part for part in (row.spelling, row.old, row.short) if part]
    if default is MISSING:
        how["required"] = True
    elif default == ():
        how |= {"multiple": True}
    else:
        how |= {"default": default, "show_default": default not in ("", 0)}
    return click.option(*spellings, row.field, **how)


@click.group(
    name="submit", cls=AliasGroup, aliases=submission.ALIASES, invoke_without_command=True,
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
@submit_options
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    target: Target,
    file: str | None,
    changes: tuple[str, ...],
    order: SubmitOptions,
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
        if file or changes or order != SubmitOptions():
            raise UsageError(
                f"options between `submit` and `{ctx.invoked_subcommand}` are for `submit -f`",
                hint=f"Write them after: arena submit {ctx.invoked_subcommand} …",
            )
        _hand_down(ctx, target)
        return
    if file is not None:
        from muster.client.submit import job_file

        job_file.submit_file(file, changes, target, order)
        return
    if changes:
        raise UsageError("--set is for `submit -f FILE`")
    if order != SubmitOptions():
        raise UsageError("there is no job to submit", hint="Name a kind, or a file with -f.")
    click.echo(ctx.get_help())


def _hand_down(ctx: click.Context, target: Target) -> None:
    """Let `submit -n team tf …` mean what `submit tf -n team …` does."""
    said = {
        "namespace": target.namespace or None,
        "kubeconfig": str(target.kubeconfig) if target.kubeconfig else None,
        "context": target.context,
    }
    root = ctx.find_root()
    root.obj = (root.obj or {}) | {name: value for name, value in said.items() if value}


for _type in submission.BY_TYPE:
    command.add_command(type_command(_type))
