"""What `submit` does with a job once it is understood: print it, check it, create it, wait for it.

Called by the commands of `kinds` and by `submit -f`. Objects go straight to the API: no helm, no
kubectl, no temporary files. The lines on stdout are arena's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli import progress
from muster.cli.cluster import choose, choose_or_start
from muster.cli.output import called, info, note, structured
from muster.cli.send import DRY, as_list, placed
from muster.cli.submit import fill, mlflow
from muster.cli.submit.transaction import Transaction, record
from muster.cli.vigil import Vigil
from muster.errors import UsageError
from muster.jobs import build
from muster.jobs.shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.meta import Raw
    from muster.cli.cluster import Cluster, Where
    from muster.kube.blocking import BlockingClient

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Order:
    """What the user wants done."""

    dry_run: str = "none"
    output: str = ""
    wait: bool = False
    watch: bool = False


def options(command: F) -> F:
    """The options of every `submit` that are not about the job; the command gets an `order`."""

    @functools.wraps(command)
    def wrapped(
        *args: Any, dry_run: str, output: str | None, wait: bool, watch: bool, **kwargs: Any
    ) -> Any:
        if dry_run != "none" and (wait or watch):
            raise UsageError("--dry-run creates nothing that could be waited for")
        return command(*args, order=Order(dry_run, output or "", wait, watch), **kwargs)

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


def submit(kind: type[build.Submission], given: dict[str, Any], where: Where, order: Order) -> None:
    """Build a job from what was given and do with it as ordered."""
    said = fill.defaults(kind, given)
    args = kind(**said)
    if args.model_name:
        mlflow.check()
    build.bundle(args, build.Site(local=True, files=fill.files(args)))  # refuse before any cluster
    for sentence in build.idle(args):
        note(sentence)
    cluster = _cluster(where, order)
    namespace = _namespace(where, cluster)
    site = fill.site(args, local=cluster is None or cluster.local)
    if cluster is None or order.dry_run == "client":
        _foresee(build.bundle(args, site), order)
        return
    with cluster.connect() as client:
        fill.check(client, args)
        site = replace(site, user=fill.user(client))
        job = _create(client, build.bundle(args, site), namespace, order)
        if args.model_name and order.dry_run == "none":
            mlflow.register(args.model_name, args.model_source, args.name)
        _wait(client, job, order)


def send(bundle: build.Bundle, where: Where, order: Order) -> None:
    """Do as ordered with a job that is already written."""
    cluster = _cluster(where, order)
    own = placed(bundle.job, where.namespace)["metadata"].get("namespace")
    namespace = own or _namespace(where, cluster)
    if cluster is None or order.dry_run == "client":
        _foresee(bundle, order)
        return
    with cluster.connect() as client:
        _wait(client, _create(client, bundle, namespace, order), order)


def _cluster(where: Where, order: Order) -> Cluster | None:
    """The cluster to talk to. A dry run starts none, and on the client needs none."""
    if order.dry_run == "client":
        return choose(where)
    if order.dry_run == "server":
        return where.cluster()
    cluster = choose_or_start(where)
    cluster.announce()
    return cluster


def _namespace(where: Where, cluster: Cluster | None) -> str:
    return where.namespace_in(cluster) if cluster else where.namespace or "default"


def _create(client: BlockingClient, bundle: build.Bundle, namespace: str, order: Order) -> Raw:
    """Make everything, say so, and give back the job as the server has it."""
    with Transaction(client, namespace, dry=order.dry_run == "server") as made:
        made.submit(bundle)
    word = f"created{DRY.get(order.dry_run, '')}"
    if order.output:
        _show([*made.extras, made.job], order)
        return made.job
    how, *extras = made.extras
    print(f"{called(how)} {word}")
    if order.dry_run == "none":
        print(f"{called(how)} labeled")
    for item in (*extras, made.job):
        print(f"{called(item)} {word}")
    if order.dry_run == "none":
        name, type_ = bundle.job["metadata"]["name"], bundle.job["kind"].lower()
        info(f"The Job {name} has been submitted successfully")
        info(
            f"You can run `arena get {name} --type {type_} -n {namespace}` to check the job status"
        )
    return made.job


def _foresee(bundle: build.Bundle, order: Order) -> None:
    """Show all that would be made."""
    _show([record(bundle.job), *bundle.extras, bundle.job], order)


def _show(items: Sequence[Raw], order: Order) -> None:
    if order.output == "name":
        for item in items:
            print(called(item))
    else:
        print(structured(as_list(items), order.output or "yaml"))


def _wait(client: BlockingClient, job: Raw, order: Order) -> None:
    if order.wait or order.watch:
        vigil = Vigil(client, SHAPES[job["kind"]].resource, job)
        progress.until_finished(
            vigil.look, instances=order.watch, sleep=vigil.wait, keeps_logs=vigil.keeps_logs
        )
