"""Size limits of emptyDir volumes on disk: looked at now and then, as the kubelet does it.

Run by the agent. A pod that keeps more than it may is evicted: it is declared failed here, and the
pod loop then ends it. Volumes in memory need no looking at; the kernel limits those.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from muster.api import quantity
from muster.errors import MusterError
from muster.kube.request import PatchType
from muster.local.node.machine.shutdown import disruption_status
from muster.local.node.pod import PODS_TO_RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from muster.api.meta import Raw
    from muster.kube.client import Client
    from muster.kube.watch.informer import Informer
    from muster.local.node.events import EventRecorder
    from muster.local.node.pod import Pod, Volume

_EVERY = 5.0


class SizeLimits:
    def __init__(
        self,
        client: Client,
        pods: Informer[Pod],
        folder: Path,
        recorder: EventRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._pods = pods
        self._folder = folder
        self._recorder = recorder
        self._clock = clock

    async def run(self) -> None:
        await self._pods.synced()
        while True:
            for pod in list(self._pods.all()):
                for volume in limited_volumes(pod):
                    await self._look(pod, volume)
            await asyncio.sleep(_EVERY)

    async def _look(self, pod: Pod, volume: Volume) -> None:
        assert volume.empty_dir is not None
        limit = volume.empty_dir.size_limit
        folder = self._folder / pod.metadata.uid / "volumes" / volume.name
        if limit is None or await asyncio.to_thread(disk_usage, folder) <= quantity.parse_whole(
            limit
        ):
            return
        said = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}".'
        self._recorder.say(pod, "Evicted", said, warning=True)
        with contextlib.suppress(MusterError):  # gone meanwhile, or tried again at the next look
            await self._client.patch(
                PODS_TO_RUN,
                pod.metadata.key,
                eviction_patch(pod, said, self._clock()),
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )


def limited_volumes(pod: Pod) -> Iterator[Volume]:
    """The volumes of a running pod that must not grow too large."""
    if pod.finished or not pod.spec.node_name:
        return
    for volume in pod.spec.volumes:
        inside = volume.empty_dir
        if inside is not None and inside.size_limit is not None and inside.medium != "Memory":
            yield volume


def eviction_patch(pod: Pod, message: str, now: datetime) -> Raw:
    """The change of status that ends the pod, and says that it was not its own failure."""
    status = disruption_status("Evicted", message, now)
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def disk_usage(folder: Path) -> int:
    """Bytes on disk below a folder; what vanishes meanwhile counts nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total
