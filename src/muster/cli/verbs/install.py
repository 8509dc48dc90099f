"""`muster install`: the operator, the scheduler and the dashboard on a Kubernetes cluster."""

from __future__ import annotations

import time
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.install.objects.values import Values
    from muster.install.plan import Plan


@click.command(name="install")
@click.option("--image", default="", help="Image of Muster, built with deploy/Containerfile.")
@click.option("--scheduler-only", is_flag=True, help="Install the scheduler alone.")
@click.option("--operator-only", is_flag=True, help="Install the operator alone.")
@click.option("--no-dashboard", is_flag=True, help="Do not install the dashboard.")
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
    help="Fail if another operator runs, rather than leave Muster's out.",
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
@click.option("--dry-run", is_flag=True, help="Print the objects as YAML without asking a cluster.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the pods are ready.")
@click.option("--timeout", default="3m", show_default=True, metavar="DURATION")
@cluster_options
def command(target: Target, **given: Any) -> None:
    """Install the operator, the scheduler and the dashboard, or bring them up to date.

    They run in the namespace `muster`, or in --namespace. CRDs of other systems are used, not
    changed. Where another job operator runs, Muster's operator is left out.

    \b
    Examples:
      muster install --image registry.example.com/muster:1.0
      muster install --image registry.example.com/muster:1.0 --scheduler-only --dry-run
    """
    from muster.client.manifests import yaml_writer
    from muster.install.objects import manifests
    from muster.install.objects.values import NAMESPACE, check_namespace
    from muster.install.plan import Request

    values = _values(given)
    namespace = check_namespace(target.namespace or NAMESPACE, "--namespace")
    if given["dry_run"]:
        objects = manifests.build(values, namespace)
        print("".join(f"---\n{yaml_writer.dump(item)}\n" for item in objects), end="")
        return
    request = Request(values, namespace, given["operator"], given["take_crds"])
    _install(target, request, given)


def _install(target: Target, request: Any, given: dict[str, Any]) -> None:
    from muster.install import existing_objects
    from muster.install.existing_objects import server_now
    from muster.install.missing_rights import NotAllowed, check_rights
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
        watched = request.values.operator.watch_namespace
        now = server_now(client)
        planned = plan(request, existing_objects.look(client, request.namespace, now, watched), now)
        try:
            check_rights(client, [*planned.extended_crds, *planned.objects])
        except NotAllowed as error:
            for sentence in error.missing if Tracebacks.shown else ():
                note(sentence)  # before the one sentence about them
            raise
        for text in planned.notes:
            note(f"note: {text}", "warn")
        confirm(cluster, _question(planned, request.namespace), yes=given["yes"])
        _apply(client, planned)
        if not given["no_wait"]:
            _wait(client, planned, request.namespace, timeout)
    print(f"installed in the namespace {request.namespace}: {_listed(planned.values.components)}")
    note("`muster doctor` checks the installation")
    if planned.values.dashboard.enabled:
        port = planned.values.dashboard.port
        forward = f"kubectl -n {request.namespace} port-forward service/muster-dashboard {port}"
        note(f"dashboard: `{forward}`, then http://localhost:{port}")


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _question(plan: Plan, namespace: str) -> str:
    components = _listed([f"the {name}" for name in plan.values.components])
    text = f"Install {components} in the namespace {namespace} ({len(plan.objects)} objects)"
    if plan.extended_crds:
        names = ", ".join(crd["metadata"]["name"] for crd in plan.extended_crds)
        text += f", and add Muster's versions to the CRDs {names} of another system"
    return text


def _apply(client: BlockingClient, plan: Plan) -> None:
    from kubekit.objects.meta import object_name
    from muster.install.installation import apply_plan

    failures = Failures()
    for result in apply_plan(client, plan):
        if isinstance(result, MusterError):
            failures.errors.append(result)
        else:
            print(f"{object_name(result.item)} {result.outcome}", flush=True)
    failures.raise_if_any(len(plan.objects), "objects")


def _wait(client: BlockingClient, plan: Plan, namespace: str, timeout: float) -> None:
    from kubekit.objects.meta import Key
    from muster.install.installation import wait_until_ready

    keys = [Key(namespace, f"muster-{name}") for name in plan.values.components]
    deadline = time.monotonic() + timeout
    with StatusLine(clock, subject="the installation") as line:
        wait_until_ready(client, keys, deadline=deadline, show=line.show)


def _values(given: dict[str, Any]) -> Values:
    """The values of the file, with the flags over them."""
    from msgspec.structs import replace

    from muster.install.objects import values as deploy_values

    file: Path | None = given["file"]
    if given["scheduler_only"] and (given["operator_only"] or given["operator"]):
        raise UsageError("--scheduler-only leaves no operator to install")
    if given["watch_namespace"] == "":
        # A variable of the shell that is not set must not become an operator of all namespaces.
        raise UsageError("--watch-namespace is empty", hint="Name it, or leave the flag out.")
    values = deploy_values.read(file.read_text(), str(file)) if file else deploy_values.Values()
    operator, scheduler, dashboard = values.operator, values.scheduler, values.dashboard
    if given["replicas"]:
        operator = replace(operator, replicas=given["replicas"])
        scheduler = replace(scheduler, replicas=given["replicas"])
    if given["scheduler_only"]:
        operator = replace(operator, enabled=False)
    if given["operator_only"]:
        scheduler = replace(scheduler, enabled=False)
    if given["no_dashboard"] or given["scheduler_only"] or given["operator_only"]:
        dashboard = replace(dashboard, enabled=False)
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
    return deploy_values.check(replace(chosen, image=given["image"] or values.image))
