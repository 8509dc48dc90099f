"""`muster dashboard`: the dashboard of any cluster, on this machine or as a pod of the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import UsageError
from muster.cli.options import Target, cluster_options, serving_options
from muster.cli.show.messages import log_lines, note

if TYPE_CHECKING:
    import socket

    from kubekit.client.auth.endpoint import Endpoint
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
@click.option(
    "--in-cluster",
    is_flag=True,
    help="Run as a pod: listen on every address. Users sign in with their own bearer tokens, "
    "whose rights are used.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="With --in-cluster: a name under which an Ingress serves it over TLS.  [repeatable]",
)
@click.option(
    "--reader-image",
    default="",
    metavar="IMAGE",
    help="Image of the pods that read models in volumes  [default: that of the installation]",
)
@serving_options
@cluster_options
def command(target: Target, **given: Any) -> None:
    """Serve the dashboard of a cluster on this machine, with your rights there.

    It prints its address, which logs one browser in, once, within ten minutes. Ctrl-C ends it.
    `muster install` runs it as a pod of the cluster, with --in-cluster.

    \b
    Examples:
      muster dashboard
      muster dashboard --kubeconfig ~/.kube/config --read-only
    """
    import uvloop

    from kubekit.telemetry import logging_setup

    logging_setup.setup(format=given["log_format"])
    log_lines(given["log_format"])
    if given["hosts"] and not given["in_cluster"]:
        raise UsageError("--host is for --in-cluster", hint="Behind a proxy, use --proxy-host.")
    if given["in_cluster"] and given["proxy_hosts"]:
        raise UsageError("--in-cluster takes the names of a proxy or an Ingress with --host")
    served = _pod(target, given) if given["in_cluster"] else _machine(target, given)
    uvloop.run(_serve(*served, given))


def _machine(target: Target, given: dict[str, Any]) -> tuple[Endpoint, Policy]:
    """On the machine of the user, or beside a proxy that passes the tokens of users on."""
    from msgspec.structs import replace

    from muster.client.submit.job_directories import current_directory
    from muster.web.access.gate import Policy, own_users

    cluster = target.cluster()
    # Behind a proxy, the users are not the owner of this machine's files.
    is_own = cluster.local and not given["proxy_hosts"]
    policy = Policy(
        read_only=given["read_only"],
        directory=current_directory() if is_own else "",
        proxy_hosts=given["proxy_hosts"],
        # A proxy runs as another user, and its users have their own tokens.
        users=frozenset() if given["proxy_hosts"] else own_users(),
        reader_image=given["reader_image"],
        login_hint="`muster dashboard` prints a new address when it is started again.",
    )
    note(f"dashboard: {cluster}")
    return replace(cluster.endpoint, namespace=target.namespace_in(cluster)), policy


def _pod(target: Target, given: dict[str, Any]) -> tuple[Endpoint, Policy]:
    """As a pod: the API server and its certificate authority, and no credentials."""
    from msgspec.structs import replace

    from kubekit.client.auth.credentials import StaticCredential
    from kubekit.client.auth.endpoint import in_cluster_without_token
    from muster.web.access.gate import Policy

    if target.kubeconfig or target.context:
        endpoint = replace(target.cluster().endpoint, credentials=StaticCredential())
    elif (found := in_cluster_without_token()) is not None:
        endpoint = found
    else:
        raise UsageError(
            "--in-cluster: this is not a pod of a cluster: KUBERNETES_SERVICE_HOST is not set",
            hint="Without --in-cluster, the dashboard uses your kubeconfig.",
        )
    note(f"dashboard: {endpoint.url}; users sign in with their own tokens")
    policy = Policy(
        read_only=given["read_only"],
        sign_in=True,
        hosts=given["hosts"],
        reader_image=given["reader_image"],
        login_hint="Sign in with a bearer token of the cluster on any page, or send it with the "
        "request: `Authorization: Bearer TOKEN`.",
    )
    return endpoint, policy


async def _serve(endpoint: Endpoint, policy: Policy, given: dict[str, Any]) -> None:
    from contextlib import AsyncExitStack

    from kubekit.serving.listener import serve_alone
    from kubekit.telemetry import metrics
    from kubekit.telemetry.health import Health
    from muster.cli.component_runner import stop_event
    from muster.web import server

    stop, serving, health = stop_event(), asyncio.Event(), Health()
    health.ready("pages", lambda: "" if serving.is_set() else "the pages are not served yet")
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_listen(policy, given["port"]))
        if (port := given["metrics_port"]) is not None:
            answering = metrics.serving(port, health, host=given["metrics_host"])
            await stack.enter_async_context(answering)
        async with asyncio.TaskGroup() as group:
            pages = server.serve(listener, endpoint, policy, serve_alone, serving=serving)
            task = group.create_task(pages)
            await stop.wait()
            task.cancel()


def _listen(policy: Policy, port: int | None) -> socket.socket:
    """The socket of the pages; its address is printed, with a token if one is needed."""
    from muster.web import server
    from muster.web.access.keys import new_token

    if policy.sign_in:
        return server.listen_everywhere(server.DEFAULT_PORT if port is None else port)
    listener = server.listen(port)
    url = server.url_of(listener)
    print(url if policy.proxy_hosts else f"{url}/?token={new_token(policy.keys)}", flush=True)
    return listener
