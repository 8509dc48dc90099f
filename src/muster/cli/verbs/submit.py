"""`arena submit KIND`: build a job from flags, or read it from a file, and create it.

The commands `submit tf`, `submit mpi`, … are made from the table of flags. Objects are sent to the
API server directly: no helm, no kubectl, no temporary files. The lines on stdout are arena's, since
scripts read them.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import UsageError
from kubekit.objects.meta import Raw, object_name
from muster.cli import arena_parser, options
from muster.cli.show.messages import arena_info, note, note_cluster, warn_of_unknown_fields
from muster.cli.show.progress import StatusLine
from muster.cli.show.table import print_objects
from muster.cli.training_command import SubmitCommand, SubmitGroup, note_literal_words, shell_line
from muster.cli.verb_groups import now
from muster.client.jobs import waiting
from muster.client.manifests.apply import check_namespace
from muster.client.submit.submit import ChosenCluster, FlagsJob, ManifestJob, submit
from muster.contract.job_kinds import JOB_KIND_BY_NAME, TYPE_ALIASES
from muster.jobs.build.flags import BY_TYPE, Flag, flags_of
from muster.jobs.build.job_manifest import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.submit.submit import DryRun, SubmitResult


@dataclass(frozen=True)
class SubmitOptions:
    """The options that are not about the job."""

    dry_run: DryRun = "none"
    output: str | None = None
    wait: bool = False
    watch: bool = False


def submit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every `submit` that are not about the job; the command gets `chosen`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = SubmitOptions(*(kwargs.pop(field.name) for field in fields(SubmitOptions)))
        if chosen.dry_run != "none" and (chosen.wait or chosen.watch):
            raise UsageError("--dry-run creates nothing that could be waited for")
        return command(*args, chosen=chosen, **kwargs)

    return options.together(
        click.option("--watch", is_flag=True, help="Wait, and print every change of a replica."),
        click.option(
            "--wait", is_flag=True, help="Wait until the job ends; exit code 10 if it fails."
        ),
        options.objects_option,
        options.dry_run_option,
        options.debug_option,
    )(wrapped)


def submit_file(
    file: str, changes: Sequence[str], target: options.Target, chosen: SubmitOptions
) -> None:
    """Submit the job of a file, with these changes."""
    from muster.client.submit import job_file

    loaded = job_file.load(file, sys.stdin, changes, warn_of_unknown_fields)
    if isinstance(loaded, Bundle):
        check_namespace(loaded.job, target.namespace)
        submit_job(ManifestJob(loaded), target, chosen)
    else:
        submit_job(FlagsJob(*loaded), target, chosen)


def submit_job(
    wanted: FlagsJob | ManifestJob, target: options.Target, chosen: SubmitOptions
) -> None:
    """Submit the job, or check it for a dry run; print what happened, and wait for its end."""
    destination = ChosenCluster.of(target, note_cluster)
    result = submit(wanted, destination, dry_run=chosen.dry_run, notify=note)
    _print_result(result, chosen)
    if result.model_error is not None:
        raise result.model_error
    if (chosen.wait or chosen.watch) and result.cluster is not None:
        with result.cluster.connect() as client:
            _wait(client, result.job, instances=chosen.watch)


def _print_result(result: SubmitResult, chosen: SubmitOptions) -> None:
    if chosen.dry_run == "client":
        print_objects(result.created.items, chosen.output or "yaml")
    elif chosen.output:
        print_objects(result.created.items, chosen.output)
    else:
        _print_lines(result, chosen.dry_run)
    if result.unenforced:
        note(result.unenforced, "warn")
    for sentence in result.missing_volumes:
        note(f"warning: {sentence}", "warn")
    if result.model_version:
        arena_info(
            f"The model version {result.model_version} of the job "
            f"{result.job['metadata']['name']} has been registered"
        )


def _print_lines(result: SubmitResult, dry_run: DryRun) -> None:
    """The lines of arena about each object."""
    record, *others = result.created.items
    outcome = f"created{options.DRY_RUN_SUFFIX[dry_run]}"
    print(f"{object_name(record)} {outcome}")
    if dry_run == "none":
        print(f"{object_name(record)} labeled")
    for item in others:
        print(f"{object_name(item)} {outcome}")
    if dry_run == "none":
        name, type_ = result.job["metadata"]["name"], result.job["kind"].lower()
        command = f"arena get {name} --type {type_} -n {result.namespace}"
        arena_info(f"The Job {name} has been submitted successfully")
        arena_info(f"You can run `{command}` to check the job status")


def _wait(client: BlockingClient, created: Raw, *, instances: bool) -> None:
    watch = waiting.JobWatch(client, JOB_KIND_BY_NAME[created["kind"]].resource, created)
    name = created["metadata"]["name"]
    subject = f"the job {name} (`arena logs -f {name}` follows it)"
    with StatusLine(now, instances=instances, subject=subject) as line:
        job = waiting.wait_for(watch, waiting.FINISHED, on_look=line.show_job, notify=line.show)
    if job.reason:
        note(job.reason, "warn")
    if job.discarded:
        note(f"{job.discarded}; write files that you need to a volume, e.g. --data-dir")


_EXAMPLES = {
    "tfjob": ("a TensorFlow job", "tf", "--ps=1 --workers=2", "python train.py"),
    "mpijob": ("an MPI job", "mpi", "--workers=2", "mpirun python train.py"),
    "pytorchjob": ("a PyTorch job", "pytorch", "--workers=2", "torchrun train.py"),
    "jaxjob": ("a JAX job", "jax", "--workers=2", "python train.py"),
}
"""What each type is called, its short name, and flags and a command that are typical of it."""


def type_command(type_: str) -> click.Command:
    """`submit TYPE`."""
    noun, short, flags, example = _EXAMPLES[type_]
    kind = BY_TYPE[type_]

    def run(
        target: options.Target, words: tuple[str, ...], chosen: SubmitOptions, **given: Any
    ) -> None:
        note_literal_words(words)
        submit_job(FlagsJob(kind, {**given, "command": (shell_line(words),)}), target, chosen)

    run.__doc__ = f"""Submit {noun}.

    COMMAND is one quoted string, or all words from the first one that is not a flag. Put flags of
    `submit` before COMMAND; they may also follow a quoted COMMAND.

    \b
    Examples:
      arena submit {short} --name=hello {flags} --gang "{example}"
      arena submit {short} --name=hello {flags} --wait {example} --lr 0.1
      arena submit {short} --name=hello {flags} --image=team/train:3 "{example}"
    """
    command: Any = options.cluster_options(run)
    command = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND")(command)
    command = submit_options(command)
    for flag in reversed(flags_of(kind)):
        command = _option(flag)(command)
    return click.command(name=type_, cls=SubmitCommand)(command)


def _option(flag: Flag) -> Callable[[Any], Any]:
    default = flag.default
    settings: dict[str, Any] = {
        "help": flag.help,
        "cls": arena_parser.ArenaOption,
        "old": flag.old,
        "group": flag.group,
    }
    if flag.is_switch:
        switch = f"{flag.spelling}/--no-{flag.spelling.lstrip('-')}"
        # None means that the switch was not written, as opposed to switched off.
        return click.option(switch, flag.field, default=None, **settings)
    if default is MISSING:
        settings["required"] = True
    elif default == ():
        settings |= {"multiple": True, "help": f"{flag.help}  [repeatable]"}
    else:
        settings |= {"default": default, "show_default": default not in ("", 0)}
    spellings = [part for part in (flag.spelling, flag.old, flag.short) if part]
    return click.option(*spellings, flag.field, **settings)


@click.group(
    name="submit", cls=SubmitGroup, aliases=TYPE_ALIASES, invoke_without_command=True,
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
@options.cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    target: options.Target,
    file: str | None,
    changes: tuple[str, ...],
    chosen: SubmitOptions,
) -> None:
    """Submit a training job.

    A file holds a job's manifest, or the flags of `submit KIND` as YAML with `kind` and `command`:

    \b
      kind: tf
      name: hello
      workers: 2
      env: {EPOCHS: 3}
      command: python train.py

    \b
    Examples:
      arena submit tf --name=hello --gang --workers=2 "python train.py"
      arena submit -f job.yaml --set workers=4 --set env.EPOCHS=5 --wait
    """
    if ctx.invoked_subcommand is not None:
        if file or changes or chosen != SubmitOptions():
            raise UsageError(
                f"options between `submit` and `{ctx.invoked_subcommand}` are for `submit -f`",
                hint=f"Write them after: arena submit {ctx.invoked_subcommand} …",
            )
        return
    if file is not None:
        submit_file(file, changes, target, chosen)
        return
    if changes:
        raise UsageError("--set is for `submit -f FILE`")
    if chosen != SubmitOptions():
        raise UsageError("there is no job to submit", hint="Name a kind, or a file with -f.")
    raise click.exceptions.NoArgsIsHelpError(ctx)


for _type in BY_TYPE:
    command.add_command(type_command(_type))
