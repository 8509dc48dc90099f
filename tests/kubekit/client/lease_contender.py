"""A process that contends for a lease and writes down each moment at which it may act.

Its arguments: a kubeconfig, a namespace, an identity and a file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from kubekit.control.leader_election import LeaderElection, LeaseLost, steady_clock

DURATION, DEADLINE, RETRY = 2.0, 1.2, 0.3


async def contend(kubeconfig: Path, namespace: str, identity: str, file: int) -> None:
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM,
        asyncio.current_task().cancel,  # type: ignore[union-attr]
    )
    async with Client.connect(kube_config.load(kubeconfig)) as client:
        election = LeaderElection(
            client,
            name="contended",
            namespace=namespace,
            identity=identity,
            duration=DURATION,
            renew_deadline=DEADLINE,
            retry=RETRY,
        )

        async def work() -> None:
            while True:
                # The moment is taken before the question: a pause between the two, however long,
                # then never makes a "yes" look later than it was.
                moment = steady_clock()
                if election.is_leader():
                    os.write(file, f"{moment:.6f} {identity}\n".encode())
                await asyncio.sleep(0.005)  # pace: how often it acts

        while True:
            try:
                await election.run_as_leader(work)
            except LeaseLost:
                continue


if __name__ == "__main__":
    kubeconfig, namespace, identity, path = sys.argv[1:]
    file = os.open(path, os.O_APPEND | os.O_WRONLY | os.O_CREAT)
    try:
        asyncio.run(contend(Path(kubeconfig), namespace, identity, file))
    except asyncio.CancelledError:
        sys.exit(0)
