"""Stopping the cluster: how to hurry it, and what a person reads while its pods end."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.runtime.pod_records import PodRecords

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from pathlib import Path

STOP_NOW = signal.SIGUSR1
"""Tells the daemon to stop without waiting for the pods' grace periods."""
NOTICE_AFTER = 1.0
"""Seconds after which a person wants to know why it takes so long."""


class Ending(NamedTuple):
    """The pods that still run, and the longest of their grace periods."""

    pods: tuple[str, ...]
    grace: int

    @property
    def text(self) -> str:
        if not self.pods:
            return "stopping the local cluster …"
        first, rest = self.pods[0].rpartition("/")[2], len(self.pods) - 1
        more = f" and {rest} more pod{'s' if rest > 1 else ''}" if rest else ""
        return f"waiting for {first}{more} to end (grace period: {self.grace} s) …"


def watch_stdin(loop: AbstractEventLoop, *callbacks: Callable[[], None]) -> None:
    """Make the calls once, when standard input ends."""
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 1024):
            loop.remove_reader(descriptor)
            for callback in callbacks:
                callback()

    loop.add_reader(descriptor, read)


def read_ending(data: Path) -> Ending:
    """The pods of the cluster with this data directory that have a running container."""
    records = PodRecords(data / "pods")
    pods = [records.read(uid) for uid in records.uids()]
    running = [pod for pod in pods if pod.open and pod.alive]
    return Ending(
        tuple(sorted(pod.key for pod in running)), max((pod.grace for pod in running), default=0)
    )
