"""`muster install`: the operator, the scheduler and the dashboard on a Kubernetes cluster."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import MusterError, UsageError
from muster.cli.each_name import Failures
from muster.cli.options import Target, cluster_options
from muster.cli.show.messages import confirm, note, note_cluster
from muster.cli.show.progress import StatusLine
from muster.cli.verb_groups import now as clock
from muster.cli.verb_table import Tracebacks
from muster.contract.gang import RESTART_SCOPES
from muster.jobs.view.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.install.existing_objects import Installed
    from muster.install.objects.values import Values
    from muster.install.plan import Plan, Request
    from muster.install.removal import OwnObject


@click.command(name="install")
@click.option(
    "--image",
    help="Image of Muster, built with deploy/Containerfile.  [default: the installed one]",
)
@click.option(
    "--scheduler-only", is_flag=True, help="Install the scheduler alone, and remove the others."
)
@click.option(
    "--operator-only", is_flag=True, help="Install the operator alone, and remove the others."
)
@click.option(
    "--dashboard/--no-dashboard",
    default=None,
    help="Install the dashboard, or remove it.  [default: as installed, else yes]",
)
@click.option(
    "--dashboard-host",
    "dashboard_hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which an Ingress serves the dashboard over TLS.  [repeatable]",
)
@click.option(
    "--operator",
    is_flag=True,
    help="Install the operator; fail if another one runs, rather than leave Muster's out.",
)
@click.option(
    "--watch-namespace",
    metavar="NAME",
    help="The operator serves this namespace only, with rights in it alone.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="Answer to this name instead of muster, kube-batchd and kube-batch.  [repeatable]",
)
@click.option("--gang-dialect", default="", metavar="NAME", help="How gangs are declared.")
@click.option(
    "--gang-by-default",
    type=bool,
    metavar="true|false",
    help="Whether jobs are gangs if they do not say.  [default: true]",
)
@click.option(
    "--default-restart",
    type=click.Choice(RESTART_SCOPES),
    help="What restarts when a replica of a job that does not say fails.  [default: replica]",
)
@click.option(
    "--priority-class",
    "priority_classes",
    multiple=True,
    metavar="CLASS=NAMESPACE,…",
    help="Only pods of these namespaces may use this PriorityClass.  [repeatable]",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 20),
    help="Pods of the operator and of the scheduler.  [default: 2]",
)
@click.option(
    "--values",
    "-f",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file of values, as for the chart; flags take precedence.",
)
@click.option("--take-crds", is_flag=True, help="Add Muster's versions to CRDs of other systems.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the objects of a new installation as YAML, without asking a cluster.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the pods are ready.")
@click.option("--timeout", default="3m", show_default=True, metavar="DURATION")
@cluster_options
def command(target: Target, **given: Any) -> None:
    """Install the operator, the scheduler and the dashboard, or change them.

    They run in the namespace `muster`, or in --namespace. An installation keeps its values but for
    those that you name; what changes is shown first. CRDs of other systems are used, not changed.
    Where another job operator runs, Muster's operator is left out.

    \b
    Examples:
      muster install --image registry.example.com/muster:1.0
      muster install --no-dashboard
      muster install --image registry.example.com/muster:1.0 --scheduler-only --dry-run
    """
    from muster.install.objects import manifests, values
    from muster.install.other_systems import refuse_unanswered

    namespace = values.check_namespace(target.namespace or values.NAMESPACE, "--namespace")
    chosen = _values(given, values.Values())
    if given["dry_run"]:
        refuse_unanswered(values.check(chosen))
        print(_as_yaml(manifests.build(chosen, namespace)), end="")
        return
    values.check_each(chosen)  # before the cluster is asked
    if given["image"] is not None:
        values.check_image(chosen.image)
    _install(target, namespace, given)


def _install(target: Target, namespace: str, given: dict[str, Any]) -> None:
    from muster.install import existing_objects, removal
    from muster.install.missing_rights import check_rights
    from muster.install.plan import plan
    from muster.jobs.build.flag_values import seconds

    timeout = seconds("--timeout", given["timeout"])
    cluster = target.cluster()
    if cluster.local:
        raise UsageError(
            "the local cluster has its own operator and scheduler",
            hint="--kubeconfig or --context names a Kubernetes cluster.",
        )
    note_cluster(cluster)
    with cluster.connect() as client:
        installed = existing_objects.installed(client, namespace)
        request = _request(given, namespace, installed)
        watched = request.values.operator.watch_namespace
        now = existing_objects.server_now(client)
        planned = plan(request, existing_objects.look(client, namespace, now, watched), now)
        with _missing_rights_listed():
            check_rights(client, [*planned.extended_crds, *planned.objects])
        for text in planned.notes:
            note(f"note: {text}", "warn")
        if installed.unread:
            kinds = _listed(installed.unread)
            note(f"note: you may not list {kinds} there, so values in them are not kept", "warn")
        before = installed.values
        removed = removal.left_out(client, namespace, before, planned) if before else []
        if before:
            _note_changes(before, planned.values, removed, namespace)
        confirm(cluster, _question(planned, removed, namespace), yes=given["yes"])
        _apply(client, planned, removed)
        if not given["no_wait"]:
            _wait(client, planned, namespace, timeout)
    print(f"installed in the namespace {namespace}: {_listed(planned.values.components)}")
    note("`muster doctor` checks the installation")
    if planned.values.dashboard.enabled:
        port = planned.values.dashboard.port
        forward = f"kubectl -n {namespace} port-forward service/muster-dashboard {port}"
        note(f"dashboard: `{forward}`, then http://localhost:{port}")


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _request(given: dict[str, Any], namespace: str, installed: Installed) -> Request:
    from muster.install.installed_values import started
    from muster.install.objects import values
    from muster.install.plan import Request

    chosen = _values(given, started(installed.values or values.Values()))
    if installed.values and not chosen.image:
        raise UsageError(
            "the components run different images", hint="--image names the one for all of them."
        )
    return Request(values.check(chosen), namespace, given["operator"], given["take_crds"])


def _note_changes(
    before: Values, after: Values, removed: Sequence[OwnObject], namespace: str
) -> None:
    from muster.install.installed_values import differences

    changes = [*differences(before, after), *(f"{row} is deleted" for row in removed)]
    keeps = "keeps its values, but for" if changes else "keeps its values"
    note("\n  ".join([f"the installation in the namespace {namespace} {keeps}", *changes]))


def _question(plan: Plan, removed: Sequence[OwnObject], namespace: str) -> str:
    components = _listed([f"the {name}" for name in plan.values.components])
    text = f"Install {components} in the namespace {namespace} ({len(plan.objects)} objects)"
    if removed:
        text += f", delete {count(len(removed), 'object')}"
    if plan.extended_crds:
        names = ", ".join(crd["metadata"]["name"] for crd in plan.extended_crds)
        text += f", and add Muster's versions to the CRDs {names} of another system"
    return text


def _apply(client: BlockingClient, plan: Plan, removed: Sequence[OwnObject]) -> None:
    from kubekit.objects.meta import object_name
    from muster.install import removal
    from muster.install.installation import apply_plan

    failures = Failures()
    for result in apply_plan(client, plan):
        if isinstance(result, MusterError):
            failures.errors.append(result)
        else:
            print(f"{object_name(result.item)} {result.outcome}", flush=True)
    for row in removed:
        with failures.collecting():
            if removal.delete(client, row):
                print(f"{row} deleted", flush=True)
    failures.raise_if_any(len(plan.objects) + len(removed), "objects")


@contextmanager
def _missing_rights_listed() -> Iterator[None]:
    """List the missing rights before the one sentence about them: with --debug, or if they are few.

    Whoever installs for one namespace wants to know what to ask for.
    """
    from muster.install.missing_rights import NotAllowed

    try:
        yield
    except NotAllowed as error:
        for sentence in error.missing if Tracebacks.shown or error.in_namespace else ():
            note(sentence)
        raise


def _wait(client: BlockingClient, plan: Plan, namespace: str, timeout: float) -> None:
    from kubekit.objects.meta import Key
    from muster.install.installation import wait_until_ready

    keys = [Key(namespace, f"muster-{name}") for name in plan.values.components]
    deadline = time.monotonic() + timeout
    with StatusLine(clock, subject="the installation") as line:
        wait_until_ready(client, keys, deadline=deadline, show=line.show)


def _values(given: dict[str, Any], installed: Values) -> Values:
    """The installed values, with those of the file over them, and the flags over both."""
    from msgspec.structs import replace

    from muster.install.objects import values as deploy_values

    file: Path | None = given["file"]
    if given["watch_namespace"] == "":
        # A variable of the shell that is not set must not become an operator of all namespaces.
        raise UsageError("--watch-namespace is empty", hint="Name it, or leave the flag out.")
    values = deploy_values.read(file.read_text(), str(file), installed) if file else installed
    operator, scheduler, dashboard = values.operator, values.scheduler, values.dashboard
    if given["replicas"]:
        operator = replace(operator, replicas=given["replicas"])
        scheduler = replace(scheduler, replicas=given["replicas"])
    if given["dashboard_hosts"]:
        dashboard = replace(dashboard, hosts=given["dashboard_hosts"])
    if given["scheduler_names"]:
        scheduler = replace(scheduler, names=given["scheduler_names"])
    by_default: bool | None = given["gang_by_default"]
    operator = replace(
        operator,
        watch_namespace=given["watch_namespace"] or operator.watch_namespace,
        gang_dialect=given["gang_dialect"] or operator.gang_dialect,
        gang_by_default=operator.gang_by_default if by_default is None else by_default,
        default_restart=given["default_restart"] or operator.default_restart,
    )
    chosen = replace(values, operator=operator, scheduler=scheduler, dashboard=dashboard)
    if given["priority_classes"]:
        rows = (text.partition("=") for text in given["priority_classes"])
        classes = {name: tuple(filter(None, spaces.split(","))) for name, _, spaces in rows}
        chosen = replace(chosen, priority_classes=classes)
    image = values.image if given["image"] is None else given["image"]
    return _with_components(replace(chosen, image=image), given)


def _with_components(values: Values, given: dict[str, Any]) -> Values:
    """The values with the components that flags ask for or exclude; others stay as they are."""
    from msgspec.structs import replace

    only_scheduler, only_operator = given["scheduler_only"], given["operator_only"]
    if only_scheduler and (only_operator or given["operator"]):
        raise UsageError("--scheduler-only leaves no operator to install")
    asked = {
        "operator": only_operator or given["operator"],
        "scheduler": only_scheduler or bool(given["scheduler_names"]),
        "dashboard": given["dashboard"] or bool(given["dashboard_hosts"]),
    }
    excluded = {
        "operator": only_scheduler,
        "scheduler": only_operator,
        "dashboard": only_scheduler or only_operator or given["dashboard"] is False,
    }
    sections = {
        name: replace(own, enabled=not excluded[name] and (asked[name] or own.enabled))
        for name in asked
        for own in (values.of(name),)
    }
    return replace(values, **sections)


def _as_yaml(objects: list[Any]) -> str:
    from muster.client.manifests import yaml_writer

    return "".join(f"---\n{yaml_writer.dump(item)}\n" for item in objects)
