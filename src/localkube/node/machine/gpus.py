"""GPUs: the real ones found through NVML, their load, and their allocation to containers.

`GpuAllocator` gives a container the indexes that it sees as CUDA_VISIBLE_DEVICES, and writes them
to the pod's folder, so that they stay the same after a restart of the daemon. There is no release:
the GPUs of a pod are free as soon as its namespaces are closed.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit.objects import quantity
from localkube.node.pod import Container, MissingReference, Pod
from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from localkube.node.runtime.pod_records import PodRecords

RESOURCE = "nvidia.com/gpu"
_FILE = "gpus"


class GpuUse(NamedTuple):
    """`load` is the share of time in which the GPU was busy; `memory` is in bytes."""

    load: float
    memory: int


@contextlib.contextmanager
def _nvml() -> Iterator[Any]:
    """The driver's library, initialised; None without a driver."""
    import pynvml  # not needed by commands that only read the API

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


@cache
def find_gpus() -> tuple[int, ...]:
    """The indexes of all GPUs that the driver shows; none without a driver."""
    gpus = []
    with _nvml() as nvml:
        for index in range(nvml.nvmlDeviceGetCount() if nvml is not None else 0):
            with contextlib.suppress(nvml.NVMLError):  # fell off the bus, or is not ours to use
                nvml.nvmlDeviceGetHandleByIndex(index)
                gpus.append(index)
    return tuple(gpus)


def gpu_use(numbers: Collection[int]) -> dict[int, GpuUse]:
    """Load and memory of these GPUs; GPUs that cannot be read are left out."""
    uses: dict[int, GpuUse] = {}
    if not numbers:
        return uses
    with _nvml() as nvml:
        for number in numbers if nvml is not None else ():
            with contextlib.suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByIndex(number)
                load = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
                uses[number] = GpuUse(load, int(nvml.nvmlDeviceGetMemoryInfo(handle).used))
    return uses


def allocated_gpus(records: PodRecords, uid: str) -> dict[str, list[int]]:
    """The GPUs of a pod's containers."""
    return files.read_json(records.pod(uid) / _FILE)


@dataclass(frozen=True)
class GpuAllocator:
    """Allocates the GPUs of every node to its containers."""

    records: PodRecords
    by_node: Mapping[str, tuple[int, ...]]

    def variables(self, pod: Pod, container: Container) -> dict[str, str]:
        """The environment that names the container's GPUs; empty if no node has a real GPU."""
        offered = self.by_node.get(pod.spec.node_name, ())
        if not any(self.by_node.values()):
            return {}
        # A container without GPUs gets empty variables, so that it does not see the others' GPUs.
        count = quantity.parse_whole(container.resources.limits.get(RESOURCE, 0))
        indexes = self._allocate(pod.metadata.uid, container.name, offered, count) if count else []
        visible = ",".join(map(str, indexes))
        return {"CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": visible or "void"}

    def _allocate(
        self, uid: str, container: str, offered: tuple[int, ...], count: int
    ) -> list[int]:
        allocated = allocated_gpus(self.records, uid)
        if container not in allocated:
            taken = {*self._others(uid), *(gpu for gpus in allocated.values() for gpu in gpus)}
            free = [gpu for gpu in offered if gpu not in taken]
            needed = min(count, len(offered))  # the other GPUs of the node are only declared
            if len(free) < needed:
                raise MissingReference(
                    f"waiting for {needed - len(free)} GPUs of a terminating pod"
                )
            allocated[container] = free[:needed]
            files.write_atomically(self.records.pod(uid) / _FILE, json.dumps(allocated))
        return allocated[container]

    def _others(self, uid: str) -> Iterator[int]:
        """The GPUs of other pods that still have processes."""
        for other in self.records.uids():
            gpus = allocated_gpus(self.records, other) if other != uid else {}
            if gpus and self.records.read(other).open:
                for numbers in gpus.values():
                    yield from numbers
