"""GPUs: the real ones found through NVML, and which container has which.

`find` is asked once, when nodes are declared. `Devices` gives a container the indexes it sees as
CUDA_VISIBLE_DEVICES and writes them beside the pod, so that they are the same after a restart of
the daemon. What a pod has is free again when its namespaces are closed; nothing is released.
"""

from __future__ import annotations

import ctypes
import json
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from muster.api import quantity
from muster.errors import MissingReference
from muster.local.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from muster.local.node.pod import Container, Pod
    from muster.local.node.runtime.interface import Runtime

RESOURCE = "nvidia.com/gpu"
_LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96


class Gpu(NamedTuple):
    number: int
    uuid: str
    name: str


@cache
def find_gpus(library: str = _LIBRARY) -> tuple[Gpu, ...]:
    """Every GPU that the driver shows; none where there is no driver."""
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return ()
    if nvml.nvmlInit_v2():
        return ()
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return ()
        found = (_read(nvml, index) for index in range(count.value))
        return tuple(gpu for gpu in found if gpu is not None)
    finally:
        nvml.nvmlShutdown()


def _read(nvml: ctypes.CDLL, index: int) -> Gpu | None:
    """One GPU; None if it fell off the bus or is not ours to see."""
    handle = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
        return None
    uuid, name = ctypes.create_string_buffer(_TEXT), ctypes.create_string_buffer(_TEXT)
    nvml.nvmlDeviceGetUUID(handle, uuid, ctypes.c_uint(_TEXT))
    nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(_TEXT))
    return Gpu(index, uuid.value.decode(), name.value.decode())


def gpus_of_node(real: tuple[int, ...], node: int, each: int) -> tuple[int, ...]:
    """The real GPUs among those that the node of that number offers: no GPU is on two nodes."""
    return real[node * each : (node + 1) * each]


class GpuAllocator:
    """Hands the GPUs of every node to its containers."""

    def __init__(
        self, folder: Path, runtime: Runtime, by_node: Mapping[str, tuple[int, ...]]
    ) -> None:
        self._folder = folder
        self._runtime = runtime
        self._by_node = by_node

    def variables(self, pod: Pod, container: Container) -> dict[str, str]:
        """What tells the container which GPUs are its own; none where GPUs are only declared."""
        offered = self._by_node.get(pod.spec.node_name, ())
        if not any(self._by_node.values()):
            return {}
        count = quantity.parse_whole(container.resources.limits.get(RESOURCE, 0))
        mine = self._give(pod.metadata.uid, container.name, offered, count) if count else []
        seen = ",".join(map(str, mine))
        return {"CUDA_VISIBLE_DEVICES": seen, "NVIDIA_VISIBLE_DEVICES": seen or "void"}

    def _give(self, uid: str, container: str, offered: tuple[int, ...], count: int) -> list[int]:
        own = self._held(uid)
        if container not in own:
            taken = {gpu for other in self._others(uid) for gpu in other}
            taken |= {gpu for gpus in own.values() for gpu in gpus}
            free = [gpu for gpu in offered if gpu not in taken]
            wanted = min(count, len(offered))  # the rest of a node's GPUs may be only declared
            if len(free) < wanted:
                raise MissingReference(
                    f"waiting for {wanted - len(free)} GPUs that an ending pod still has"
                )
            own[container] = free[:wanted]
            files.write_atomically(self._folder / uid / "gpus", json.dumps(own))
        return own[container]

    def _others(self, uid: str) -> list[list[int]]:
        """What pods hold that still have processes."""
        open_ones = [other for other in self._runtime.uids() if other != uid]
        return [
            gpus
            for other in open_ones
            if (held := self._held(other)) and self._runtime.read(other).open
            for gpus in held.values()
        ]

    def _held(self, uid: str) -> dict[str, list[int]]:
        return files.read_json(self._folder / uid / "gpus")
