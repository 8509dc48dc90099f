"""Running `operator` and `scheduler`: connect, log, serve metrics, elect a leader, stop.

SIGTERM and SIGINT stop a daemon gracefully, with exit code 0.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kubekit.client.client import Client
from kubekit.control.leader_election import LeaderElection
from kubekit.telemetry import logging_setup, metrics
from kubekit.telemetry.health import Health
from muster.cli.options import serving_options, together
from muster.cli.show.messages import log_lines, note
from muster.jobs.build.flag_values import seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from muster.client.target import Target

LEASE_NAMESPACE = "kube-system"


@dataclass(frozen=True)
class DaemonOptions:
    """The options of a daemon, and its name."""

    name: str
    leader_elect: bool
    metrics_port: int | None
    metrics_host: str
    log_format: str
    lease_duration: int = 15
    renew_deadline: int = 10
    retry_period: int = 2
    lease_namespace: str = LEASE_NAMESPACE
    beside_local: str = ""
    """A warning for a daemon that is started beside the local cluster, which has its own."""


@dataclass(frozen=True)
class DaemonContext:
    """The objects that a daemon works with; without --leader-elect there is no election."""

    client: Client
    health: Health
    election: LeaderElection | None
    stop: asyncio.Event


def _duration(flag: str, default: str, text: str) -> Callable[..., Any]:
    """An option with a duration such as 15s; the command receives seconds."""
    return click.option(
        flag,
        flag.removeprefix("--leader-elect-").replace("-", "_"),
        default=default,
        show_default=True,
        callback=lambda _context, _option, value: seconds(flag, value),
        help=text,
    )


daemon_options = together(
    serving_options,
    _duration(
        "--leader-elect-retry-period",
        "2s",
        "Pause between two attempts to get or renew the lease.",
    ),
    _duration(
        "--leader-elect-renew-deadline",
        "10s",
        "The leader stops if it has not renewed the lease for this long.",
    ),
    _duration(
        "--leader-elect-lease-duration",
        "15s",
        "Others wait this long after the last renewal before they take the lease.",
    ),
    click.option("--leader-elect", is_flag=True, help="Work only while holding the lease."),
)
"""Of every daemon; the command receives them as keywords."""


def run(
    target: Target, options: DaemonOptions, work: Callable[[DaemonContext], Awaitable[None]]
) -> None:
    """Connect to the chosen cluster and run until a signal comes."""
    import uvloop

    logging_setup.setup(format=options.log_format)
    log_lines(options.log_format)
    cluster = target.cluster()
    note(f"{options.name}: {cluster}")
    if cluster.local and options.beside_local:
        note(f"warning: {options.beside_local}", "warn")

    async def main() -> None:
        async with Client.connect(cluster.endpoint, user_agent=f"muster-{options.name}") as client:
            election = _election(client, options) if options.leader_elect else None
            context = DaemonContext(client, Health(), election, stop_event())
            if options.metrics_port is None:
                await work(context)
                return
            async with metrics.serving(
                options.metrics_port, context.health, host=options.metrics_host
            ):
                await work(context)

    uvloop.run(main())


def stop_event() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _election(client: Client, options: DaemonOptions) -> LeaderElection:
    # Unique per process: a restarted daemon must not take its predecessor's lease for its own.
    identity = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return LeaderElection(
        client,
        name=f"muster-{options.name}",
        namespace=options.lease_namespace,
        identity=identity,
        duration=options.lease_duration,
        renew_deadline=options.renew_deadline,
        retry=options.retry_period,
    )
