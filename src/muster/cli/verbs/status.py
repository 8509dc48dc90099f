"""`arena status`: which cluster commands use, and whether the local cluster is up."""

from __future__ import annotations

from typing import Any

import click

from kubekit.errors import MusterError
from kubekit.objects import enforced_limits
from kubekit.objects.kinds import NODES
from kubekit.objects.meta import condition_is_true
from kubekit.request_errors import Forbidden
from muster.cli import dashboard_url, options
from muster.cli.show.table import json_or_yaml, table
from muster.client.home import Home
from muster.client.target import Target, no_cluster


@click.command(name="status")
@options.output_option("wide", "json", "yaml")
@options.cluster_options
def command(target: Target, output: str) -> None:
    """Show which cluster is used and whether the local cluster is up."""
    home = Home.of_user()
    local = _local(home)
    daemon, stopping = local.get("daemon"), local["local"] == "stopping"
    cluster = target.find()
    data: dict[str, Any] = {
        "cluster": cluster.name if cluster else "",
        "from": cluster.source if cluster else "",
        "url": cluster.endpoint.url if cluster else "",
        **local,
    }
    if not stopping and (cluster is None or cluster.local):
        data |= _dashboard(home)
    problem: MusterError | None = None
    if cluster is not None:
        try:
            with cluster.connect() as client:
                nodes = client.list(NODES).items
                if cluster.local and not stopping:
                    data["components"] = client.ready_checks()
            ready = sum(condition_is_true(node.status.conditions, "Ready") for node in nodes)
            data["nodes"] = f"{ready} of {len(nodes)} ready"
            published = enforced_limits.enforcement(node.metadata.annotations for node in nodes)
            data |= {f"{resource}Limits": value for resource, value in published.items()}
        except Forbidden:
            data["nodes"] = "you may not list them"
        except MusterError as error:
            problem, data["trouble"] = error, str(error)
    if output != "wide":
        print(json_or_yaml(data, output))
    else:
        shown = {**data, "local": data.get("hint") or data["local"], "daemon": "", "hint": ""}
        shown |= {"components": _components(data.get("components") or {})}
        if cluster is not None and cluster.local:
            shown |= {key: value for key, value in (daemon or {}).items() if key not in data}
        else:
            shown |= {f"local {key}": value for key, value in (daemon or {}).items()}
        print(table([(f"{key}:", str(value)) for key, value in shown.items() if value]))
    if cluster is None:
        raise no_cluster(hint="")  # the table says how to start one
    if problem is not None:
        raise problem


def _dashboard(home: Home) -> dict[str, str]:
    """The dashboard's address with a fresh token, if the local cluster serves one."""
    url = dashboard_url.of_local_cluster(home)
    return {"dashboard": url} if url else {}


def _components(checks: dict[str, str]) -> str:
    """The components that failed, and why; in a few words if all run."""
    failed = [f"{name} failed: {problem}" for name, problem in checks.items() if problem]
    return "; ".join(failed) or ("all running" if checks else "")


def _local(home: Home) -> dict[str, Any]:
    """Whether the local cluster is up; while `arena down` stops it, the pods that it waits for."""
    daemon = home.status()
    if daemon is None:
        return {"local": "down", **_without_daemon(home)}
    if not daemon.pop("stopping", False):
        return {"local": "up", "daemon": daemon}
    from muster.local_daemon import what_ends

    daemon.pop("dashboard", None)  # it ends before the pods
    text = what_ends(home)
    pods = f"; {text.removesuffix(' …')}" if text else ""
    return {"local": "stopping", "daemon": daemon, "hint": f"stopping{pods}"}


def _without_daemon(home: Home) -> dict[str, str]:
    """What became of a local cluster whose daemon is not ready, and the next step."""
    if pid := home.running():
        return {"local": "starting", "hint": f"starting or stopping (pid {pid})"}
    if home.was_killed():
        pods = "pods may still run: `arena up` finds them again, `arena down` stops them"
        return {"hint": f"killed; {pods}"}
    data = home.stored_data()
    if data is None:
        return {"hint": "down; `arena up --detach` starts it"}
    flag = f" --data-dir {data}" if data != home.data else ""
    return {"hint": f"stopped; `arena up --detach{flag}` starts it again, with its jobs"}
