"""`muster dashboard`: the dashboard of any cluster, on this machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from muster.cli.options import Target, cluster_options
from muster.cli.show.messages import note

if TYPE_CHECKING:
    from muster.kube.auth.endpoint import Endpoint
    from muster.web.access.gate import Policy


@click.command(name="dashboard")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port on 127.0.0.1  [default: 7080 or the next free one]",
)
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option(
    "--proxy-host",
    "proxy_hosts",
    multiple=True,
    metavar="NAME",
    help="Serve a proxy that answers to this name: every request must carry the bearer token of "
    "its user, whose rights are used.  [repeatable]",
)
@cluster_options
def command(
    target: Target, port: int | None, read_only: bool, proxy_hosts: tuple[str, ...]
) -> None:
    """Serve the dashboard of a cluster on this machine, with your rights there.

    It prints its address, which logs one browser in, once, within ten minutes. Ctrl-C ends it.

    \b
    Examples:
      muster dashboard
      muster dashboard --kubeconfig ~/.kube/config --read-only
    """
    import uvloop
    from msgspec.structs import replace

    from muster.client.submit.workspace import current_directory
    from muster.telemetry import logging_setup
    from muster.web.access.gate import Policy

    logging_setup.setup(format="human")
    cluster = target.cluster()
    # Behind a proxy, the users are not the owner of this machine's files.
    is_own = cluster.local and not proxy_hosts
    policy = Policy(
        read_only=read_only,
        directory=current_directory() if is_own else "",
        proxy_hosts=proxy_hosts,
        login_hint="`muster dashboard` prints a new address when it is started again.",
    )
    endpoint = replace(cluster.endpoint, namespace=target.namespace_in(cluster))
    note(f"dashboard: {cluster}")
    uvloop.run(_serve(endpoint, port, policy))


async def _serve(endpoint: Endpoint, port: int | None, policy: Policy) -> None:
    from muster.cli.daemon import stop_event
    from muster.local.apiserver.connections.doors import PlainDoor
    from muster.web import run
    from muster.web.access.keys import new_token

    with run.listen(port) as listener:
        url = run.url_of(listener)
        print(url if policy.proxy_hosts else f"{url}/?token={new_token(policy.keys)}", flush=True)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(run.serve(listener, endpoint, policy, PlainDoor))
            await stop_event().wait()
            serving.cancel()
