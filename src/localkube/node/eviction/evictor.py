"""Evicts pods that use too much disk. The usage is measured periodically, as the kubelet does.

The status of an evicted pod becomes Failed here. The pod loop then stops the pod and deletes its
files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.errors import MusterError, describe
from kubekit.objects.kinds import PODS
from kubekit.objects.limits import EVICTED
from kubekit.telemetry import unexpected_errors
from kubekit.telemetry.log_bounds import RepeatedLine
from localkube.node.eviction.disk_limits import over_limit
from localkube.node.eviction.disk_usage import Disk, disk_usage

if TYPE_CHECKING:
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.watch.informer import Informer
    from localkube.node.events import PodEvents
    from localkube.node.pod import Pod

log = logging.getLogger(__name__)
_not_measured = RepeatedLine(log, logging.WARNING)

_INTERVAL = 5.0
_PAUSE_PER_WORK = 20.0
"""Pods with millions of files take long to measure: it may cost a twentieth of a processor."""


@dataclass(frozen=True)
class Evictor:
    client: Client
    nodes: frozenset[str]
    pods: Informer[Pod]
    folder: Path
    """Contains one directory per pod."""
    events: PodEvents

    async def run(self) -> None:
        """Check all pods again and again, until cancelled."""
        await self.pods.synced()
        while True:
            work = 0.0
            for pod in list(self.pods.all()):
                if pod.spec.node_name in self.nodes and not pod.finished:
                    work += await self._check(pod)
            await asyncio.sleep(max(_INTERVAL, _PAUSE_PER_WORK * work))

    async def _check(self, pod: Pod) -> float:
        """Evict the pod if it must be; returns the processor time that this took."""
        try:
            message, work = await asyncio.to_thread(self._measure, pod)
        except OSError as error:  # one pod's trouble must not end the checks of the others
            _not_measured.log("the disk usage of pod %s: %s", pod.metadata.key, describe(error))
            return 0.0
        except Exception as error:  # noqa: BLE001 - and neither must its fields
            unexpected_errors.survived("eviction", pod.metadata.key, error)
            return 0.0
        if message:
            await self._evict(pod, message)
        return work

    async def _evict(self, pod: Pod, message: str) -> None:
        log.warning("pod %s is evicted: %s", pod.metadata.key, message)
        self.events.record(pod, EVICTED, message, warning=True)
        # Without a DisruptionTarget condition, as with the kubelet: it is the pod's own failure.
        status = {"phase": "Failed", "reason": EVICTED, "message": message}
        with contextlib.suppress(MusterError):  # the pod is gone, or the next check repeats it
            await self.client.patch_status(PODS, pod.metadata, status)

    def _measure(self, pod: Pod) -> tuple[str, float]:
        """Why the pod must be evicted, and the processor time of this thread for it."""
        folder, started = self.folder / pod.metadata.uid, time.thread_time()
        if not folder.is_dir():  # it has not started yet
            return "", 0.0
        message = over_limit(pod, disk_usage(folder), Disk.of(folder))
        return message, time.thread_time() - started
