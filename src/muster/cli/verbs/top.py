"""`arena top node|job`: used, requested and allocatable CPUs, memory and GPUs.

The columns of arena's tables come first and mean what they mean there; CPU and memory, which arena
does not show, follow.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from muster.api.meta import Key
from muster.cli import options
from muster.cli.show import live
from muster.cli.show.live import Frame
from muster.cli.show.messages import note_once
from muster.cli.show.table import json_or_yaml
from muster.cli.verb_groups import AliasGroup
from muster.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


_MODES = {"n": False, "none": False, "e": True, "exclusive": True}


@click.group(name="top", cls=AliasGroup, aliases={"nodes": "node", "jobs": "job"})
def command() -> None:
    """Show what nodes and jobs use.

    \b
    Examples:
      arena top node
      arena top job hello
    """


def _table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of both tables."""
    for option in (
        click.option(
            "--refresh", "-r", "--watch", "-w", is_flag=True, help="Redraw it every two seconds."
        ),
        click.option(
            "--output", "-o", type=click.Choice(["wide", "json", "yaml"]), default="wide",
            help="Data instead of a table.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@command.command(name="node")
@click.argument("names", nargs=-1, metavar="[NODE]…")
@click.option("--details", "-d", is_flag=True, help="Also the pods on each node.")
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
    refresh: bool,
    output: str,
) -> None:
    """Show what nodes have, what is allocated to pods and what is used.

    \b
    Examples:
      arena top node
      arena top node -d node-1
    """
    from muster.cli.show import usage_tables
    from muster.client.jobs import usage

    with_gpus = _with_gpus(gpu_mode)
    with target.cluster().connect() as client:

        def look() -> Frame:
            nodes = [
                node
                for node in usage.node_usages(client, names)
                if with_gpus is None or bool(node.total.gpus) is with_gpus
            ]
            if output != "wide":
                text = json_or_yaml([asdict(node) for node in nodes], output)
            elif details:
                text = usage_tables.node_details(nodes)
            else:
                text = usage_tables.nodes_table(nodes)
            return Frame(text, text)

        _show(look, refresh=refresh)


@command.command(name="job")
@options.name_argument(required=False)
@options.all_namespaces_option
@click.option("--instance", "-i", default="", help="Only this instance of the job.")
@options.type_option
@_table_options
@options.cluster_options
def job(
    target: options.Target,
    name: str | None,
    all_namespaces: bool,
    instance: str,
    type_: str,
    **given: Any,
) -> None:
    """Show what jobs request and use; with a JOB, each of its instances.

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

        def look() -> Frame:
            if name:
                use = usage.job_usage(client, Key(namespace, name), type_).only(instance)
                data: object = usage_tables.job_data(use)
                text = usage_tables.job_detail(use)
            else:
                uses = usage.job_usages(client, namespace, type_, note_once)
                data = [usage_tables.job_data(each) for each in uses]
                text = usage_tables.jobs_table(uses, all_namespaces=all_namespaces)
            if given["output"] != "wide":
                text = json_or_yaml(data, given["output"])
            return Frame(text, text)

        _show(look, refresh=given["refresh"])


def _with_gpus(mode: str) -> bool | None:
    if mode and mode not in _MODES:
        raise UsageError(
            f"--gpu-mode {mode}: write n (nodes without GPUs) or e (nodes with)",
            hint="GPUs shared between pods or grouped by topology are not known here.",
        )
    return _MODES.get(mode)


def _show(look: Callable[[], Frame], *, refresh: bool) -> None:
    if refresh:
        live.show(look, every=2.0)
    else:
        print(look().text)
