"""Size limits of emptyDir volumes on disk, checked periodically as the kubelet does.

A pod over its limit is evicted: its status becomes Failed here, and the pod loop then stops it.
Volumes in memory are limited by the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api import quantity
from muster.api.kinds import PODS
from muster.errors import MusterError
from muster.local.node.machine.shutdown import disruption_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from muster.kube.client import Client
    from muster.kube.watch.informer import Informer
    from muster.local.node.events import PodEvents
    from muster.local.node.pod import Pod
    from muster.local.node.volumes.volume_sources import Volume

_INTERVAL = 5.0


@dataclass(frozen=True)
class SizeLimits:
    client: Client
    pods: Informer[Pod]
    folder: Path
    """Contains one directory per pod."""
    events: PodEvents
    clock: Callable[[], datetime]

    async def run(self) -> None:
        await self.pods.synced()
        while True:
            for pod in list(self.pods.all()):
                for volume in limited_volumes(pod):
                    await self._check(pod, volume)
            await asyncio.sleep(_INTERVAL)

    async def _check(self, pod: Pod, volume: Volume) -> None:
        assert volume.empty_dir is not None
        limit = volume.empty_dir.size_limit
        folder = self.folder / pod.metadata.uid / "volumes" / volume.name
        usage = await asyncio.to_thread(disk_usage, folder)
        if limit is None or usage <= quantity.parse_whole(limit):
            return
        message = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}".'
        self.events.record(pod, "Evicted", message, warning=True)
        status = disruption_status("Evicted", message, self.clock())
        with contextlib.suppress(MusterError):  # the pod is gone, or the next check repeats it
            await self.client.patch_status(PODS, pod.metadata, status)


def limited_volumes(pod: Pod) -> Iterator[Volume]:
    """The volumes of a running pod that have a size limit on disk."""
    if pod.finished or not pod.spec.node_name:
        return
    for volume in pod.spec.volumes:
        source = volume.empty_dir
        if source is not None and source.size_limit is not None and source.medium != "Memory":
            yield volume


def disk_usage(folder: Path) -> int:
    """Bytes on disk below a directory; files that are deleted meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                # Blocks, not the size: a sparse file takes less disk than its size. Always 512.
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total
