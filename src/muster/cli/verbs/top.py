"""`arena top node|job`: used, requested and allocatable CPUs, memory and GPUs.

The columns of arena's tables come first, with the same meaning; then CPU and memory, which arena
does not show.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import UsageError
from kubekit.objects.meta import Key
from muster.cli import options
from muster.cli.show import live
from muster.cli.show.live import Frame
from muster.cli.show.messages import note_once
from muster.cli.show.table import json_or_yaml
from muster.cli.verb_groups import AliasGroup, now

if TYPE_CHECKING:
    from collections.abc import Callable


_MODES = {"n": False, "none": False, "e": True, "exclusive": True}


@click.group(name="top", cls=AliasGroup, aliases={"nodes": "node", "jobs": "job"})
def command() -> None:
    """Show the resources that nodes and jobs use.

    \b
    Examples:
      arena top node
      arena top job hello
    """


_table_options = options.together(
    click.option(
        "--refresh", "-r", "--watch", "-w", is_flag=True, help="Redraw it every two seconds."
    ),
    options.output_option("wide", "json", "yaml"),
)


@command.command(name="node")
@click.argument("names", nargs=-1, metavar="[NODE]…")
@click.option("--details", "-d", is_flag=True, help="Show the pods on each node too.")
@click.option(
    "--gpu-mode", "-m", default="", metavar="n|e", help="Only nodes without (n) or with (e) GPUs."
)
@_table_options
@options.cluster_options
def node(
    target: options.Target,
    names: tuple[str, ...],
    details: bool,
    gpu_mode: str,
    **form: Any,
) -> None:
    """Show the resources of nodes: total, allocated to pods and used.

    \b
    Examples:
      arena top node
      arena top node -d node-1
    """
    from muster.cli.show import usage_tables
    from muster.client.jobs import usage

    if gpu_mode and gpu_mode not in _MODES:
        raise UsageError(
            f"--gpu-mode {gpu_mode}: write n (nodes without GPUs) or e (nodes with)",
            hint="GPUs shared between pods or grouped by topology are not known here.",
        )
    with_gpus = _MODES.get(gpu_mode)
    with target.cluster().connect() as client:

        def look() -> tuple[object, str]:
            nodes = [
                node
                for node in usage.node_usages(client, names)
                if with_gpus is None or bool(node.total.gpus) is with_gpus
            ]
            draw = usage_tables.node_details if details else usage_tables.nodes_table
            return [asdict(node) for node in nodes], draw(nodes)

        _show(look, **form)


@command.command(name="job")
@options.name_argument(required=False)
@options.all_namespaces_option
@click.option(
    "--instance", "-i", default="", help="Only this pod of the job, or the worker with this index."
)
@options.type_option
@_table_options
@options.cluster_options
def job(
    target: options.Target,
    name: str | None,
    all_namespaces: bool,
    instance: str,
    type_: str,
    **form: Any,
) -> None:
    """Show the resources that jobs request and use; with a JOB, of each of its replicas.

    \b
    Examples:
      arena top job
      arena top job hello -r
    """
    from muster.cli.show import usage_tables
    from muster.client.jobs import usage

    if instance and not name:
        raise UsageError("-i needs the name of a job")
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:

        def look() -> tuple[object, str]:
            if name:
                job = usage.job_usage(client, Key(namespace, name), type_, now()).only(instance)
                return usage_tables.job_data(job), usage_tables.job_detail(job)
            jobs = usage.job_usages(client, namespace, type_, now(), note_once)
            text = usage_tables.jobs_table(jobs, all_namespaces=all_namespaces)
            return [usage_tables.job_data(job) for job in jobs], text

        _show(look, **form)


def _show(look: Callable[[], tuple[object, str]], *, refresh: bool, output: str) -> None:
    """Print or redraw the result of `look`: its data as JSON or YAML, or its table."""

    def frame() -> Frame:
        data, table = look()
        text = table if output == "wide" else json_or_yaml(data, output)
        return Frame(text, text)

    live.show(frame, watch=refresh, every=2.0)
