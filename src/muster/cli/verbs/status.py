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
from muster.client.target import NoCluster, Target, no_cluster


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
        data |= {"dashboard": url} if (url := dashboard_url.of_local_cluster(home)) else {}
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
        shown |= _limits(data)
        if cluster is not None and cluster.local:
            shown |= {key: value for key, value in (daemon or {}).items() if key not in data}
        else:
            shown |= {f"local {key}": value for key, value in (daemon or {}).items()}
        shown |= {"problems": "", "local problems": ""}  # the other rows have them
        print(table([(f"{key}:", str(value)) for key, value in shown.items() if value]))
    if cluster is None:
        raise NoCluster(str(no_cluster()))  # the table says how to start one
    if problem is not None:
        raise problem


def _limits(data: dict[str, Any]) -> dict[str, str]:
    """The rows of the limits as one: they mostly have one reason."""
    rows = {f"{resource}Limits": resource for resource in enforced_limits.ANNOTATIONS}
    published = {rows[key]: data[key] for key in rows if key in data}
    reasons = enforced_limits.unenforced(published, published)
    text = enforced_limits.in_words(reasons) if reasons else enforced_limits.ENFORCED
    return {**dict.fromkeys(rows, ""), "limits": text if published else ""}


def _components(checks: dict[str, str]) -> str:
    """The components that failed, and why; in a few words if all run."""
    failed = [f"{name} failed: {problem}" for name, problem in checks.items() if problem]
    return "; ".join(failed) or ("all running" if checks else "")


def _local(home: Home) -> dict[str, Any]:
    """Whether the local cluster is up; while `arena down` stops it, the pods that it waits for."""
    daemon = home.status()
    if daemon is None:
        state, hint, pid = home.absence()
        if pid:
            return {"local": state, "hint": f"starting or stopping (pid {pid})"}
        return {"local": "down", "hint": f"{state}; {hint}"}
    if not daemon.pop("stopping", False):
        return {"local": "up", "daemon": daemon}
    from muster.local_daemon import what_ends

    daemon.pop("dashboard", None)  # it ends before the pods
    text = what_ends(home)
    pods = f"; {text.removesuffix(' …')}" if text else ""
    return {"local": "stopping", "daemon": daemon, "hint": f"stopping{pods}"}
