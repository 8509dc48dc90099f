"""`arena top node|job`: what is used, asked for and there, in CPUs, memory and GPUs.

The columns of arena's tables come first and mean what they mean there; CPU and memory, which arena
does not show, follow.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.show import live
from muster.cli.show.live import Frame
from muster.cli.show.table import json_or_yaml
from muster.cli.verb_groups import AliasGroup
from muster.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.cli.show.usage_tables import NodeUsage
    from muster.client.target import Target

_MODES = {"n": False, "none": False, "e": True, "exclusive": True}


@click.group(name="top", cls=AliasGroup, aliases={"nodes": "node", "jobs": "job"})
def command() -> None:
    """Show what nodes and jobs use.

    \b
    Examples:
      arena top node
      arena top job hello
    """


def _shown(options: Callable[..., Any]) -> Callable[..., Any]:
    """The options of both tables."""
    for option in (
        click.option(
            "--refresh", "-r", "--watch", "-w", is_flag=True, help="Draw it again and again."
        ),
        click.option(
            "--output", "-o", type=click.Choice(["wide", "json", "yaml"]), default="wide",
            help="Data instead of a table.",
        ),
    ):  # fmt: skip
        options = option(options)
    return options


@command.command(name="node")
@click.argument("names", nargs=-1, metavar="[NODE]…")
@click.option("--details", "-d", is_flag=True, help="Also the pods on each node.")
@click.option(
    "--gpu-mode", "-m", default="", metavar="n|e", help="Only nodes without (n) or with (e) GPUs."
)
@_shown
@cluster_options
def node(
    target: Target, names: tuple[str, ...], details: bool, gpu_mode: str, refresh: bool, output: str
) -> None:
    """Show what nodes have, what is given away and what is used.

    \b
    Examples:
      arena top node
      arena top node -d node-1
    """
    from muster.cli.show import usage_tables

    with_gpus = _mode(gpu_mode)

    def wanted(use: NodeUsage) -> bool:
        return with_gpus is None or bool(use.total.gpus) is with_gpus

    with target.cluster().connect() as client:

        def look() -> Frame:
            uses = [use for use in usage_tables.node_usages(client, names) if wanted(use)]
            if output != "wide":
                text = json_or_yaml([asdict(use) for use in uses], output)
            else:
                text = usage_tables.node_details(uses) if details else usage_tables.node_table(uses)
            return Frame(text, text)

        _show(look, refresh=refresh)


@command.command(name="job")
@options.name_argument(required=False)
@click.option("--all-namespaces", "--allNamespaces", "-A", is_flag=True, help="All namespaces.")
@click.option("--instance", "-i", default="", help="Only this instance of the job.")
@options.type_option
@_shown
@cluster_options
def job(target: Target, name: str | None, all_namespaces: bool, **how: Any) -> None:
    """Show what jobs asked for and what they use; with a JOB, each of its instances.

    \b
    Examples:
      arena top job
      arena top job hello -r
    """
    from muster.cli.show import usage_tables as topjobs

    if how["instance"] and not name:
        raise UsageError("-i needs the name of a job")
    cluster = target.cluster()
    space = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:

        def look() -> Frame:
            if name:
                use = topjobs.job_usage(client, space, name, how["type_"]).only(how["instance"])
                data: object = use.as_data()
                text = topjobs.job_detail(use)
            else:
                uses = topjobs.job_usages(client, space, how["type_"])
                data = [each.as_data() for each in uses]
                text = topjobs.job_table(uses, spaces=all_namespaces)
            if how["output"] != "wide":
                text = json_or_yaml(data, how["output"])
            return Frame(text, text)

        _show(look, refresh=how["refresh"])


def _mode(text: str) -> bool | None:
    if text and text not in _MODES:
        raise UsageError(
            f"--gpu-mode {text}: write n (nodes without GPUs) or e (nodes with)",
            hint="GPUs shared between pods or grouped by topology are not known here.",
        )
    return _MODES.get(text)


def _show(look: Callable[[], Frame], *, refresh: bool) -> None:
    if refresh:
        live.show(look, every=2.0)
    else:
        print(look().text)
