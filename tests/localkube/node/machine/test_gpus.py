"""GPUs: found and measured through NVML, allocated by index, the same after a restart."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pynvml
import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from localkube.node.machine import capacity, gpus
from localkube.node.machine.gpus import GpuAllocator, GpuUse
from localkube.node.pod import MissingReference
from localkube.node.runtime.pod_records import PodRecord, PodRecords
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import Raw, local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, make_pod, manifest
from tests.prerequisites import missing_prerequisite

LIBRARY = """
static int slot[4];
int nvmlInitWithFlags(unsigned flags) { return FAIL; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = &slot[index];
    return index == 2 ? 15 : 0;  /* one has fallen off the bus */
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    rates[0] = 10 * (unsigned)((int *)handle - slot) + 5;  /* percent of time */
    rates[1] = 99;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *amounts) {
    amounts[0] = 80ull << 30, amounts[1] = 79ull << 30, amounts[2] = 1ull << 30;
    return 0;
}
"""


def install_driver(folder: Path, monkeypatch: pytest.MonkeyPatch, fail: int = 0) -> None:
    """Make NVML load a driver library with four GPUs, built here."""
    compiler = shutil.which("cc")
    if compiler is None:
        missing_prerequisite("cc", "no C compiler to build a fake driver library")
    source, built = folder / "nvml.c", folder / f"libnvml-{fail}.so"
    source.write_text(LIBRARY)
    flags = ["-shared", "-fPIC", f"-DFAIL={fail}", "-o", str(built)]
    subprocess.run([compiler, *flags, str(source)], check=True)
    use_library(str(built), monkeypatch)


def use_library(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "CDLL", lambda name: ctypes.CDLL(path))
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


@pytest.fixture(autouse=True)
def no_cached_gpus() -> Iterator[None]:
    gpus.find_gpus.cache_clear()
    yield
    gpus.find_gpus.cache_clear()


def test_all_working_gpus_of_the_driver_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_driver(tmp_path, monkeypatch)

    assert gpus.find_gpus() == (0, 1, 3)


def test_a_driver_that_does_not_start_has_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_driver(tmp_path, monkeypatch, fail=9)

    assert gpus.find_gpus() == ()
    assert gpus.gpu_use([0]) == {}


def test_a_machine_without_a_driver_has_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_library(str(tmp_path / "nothing.so"), monkeypatch)

    assert gpus.find_gpus() == ()
    assert gpus.gpu_use([0]) == {}


def test_load_and_memory_of_working_gpus_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_driver(tmp_path, monkeypatch)

    assert gpus.gpu_use([0, 2, 3]) == {0: GpuUse(0.05, 1 << 30), 3: GpuUse(0.35, 1 << 30)}


def test_without_gpus_to_read_nvml_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: pytest.fail("NVML was initialised"))

    assert gpus.gpu_use([]) == {}


def fixed_gpus(*numbers: int) -> Any:
    return cache(lambda: numbers)


def test_real_gpus_are_on_one_node_each_and_the_rest_only_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpus, "find_gpus", fixed_gpus(0, 1, 3))

    alone, bare = capacity.declare_nodes(2)
    several = capacity.declare_nodes(3, gpus_each=2)

    assert (alone.resources[gpus.RESOURCE], alone.gpus) == ("3", (0, 1, 3))
    assert gpus.RESOURCE not in bare.resources
    assert [(n.resources[gpus.RESOURCE], n.gpus) for n in several] == [
        ("2", (0, 1)),
        ("2", (3,)),
        ("2", ()),
    ]


class OpenPods(PodRecords):
    """Records of pods that have namespaces (True) or had them (False)."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.pods: dict[str, bool] = {}

    def uids(self) -> list[str]:
        return list(self.pods)

    def read(self, uid: str) -> PodRecord:
        return PodRecord(uid, known=True, open=self.pods[uid])


def gpu_container(name: str, count: int) -> Raw:
    return container(name, resources={"limits": {gpus.RESOURCE: count}})


def test_no_gpu_is_allocated_twice_and_gpus_of_an_ended_pod_are_free(tmp_path: Path) -> None:
    records = OpenPods(tmp_path)
    allocator = GpuAllocator(records, {"muster-0": (0, 1, 2, 3)})

    def allocate(name: str, *containers: Raw) -> list[str]:
        pod = make_pod(name, *containers)
        (tmp_path / pod.metadata.uid).mkdir(exist_ok=True)
        records.pods[pod.metadata.uid] = True
        variables = [allocator.variables(pod, c) for c in pod.spec.containers]
        return [values["CUDA_VISIBLE_DEVICES"] for values in variables]

    assert allocate("a", gpu_container("x", 1), gpu_container("y", 2), container("z")) == [
        "0",
        "1,2",
        "",
    ]
    with pytest.raises(MissingReference, match="1 GPU"):
        allocate("b", gpu_container("x", 2))
    records.pods["uid-a"] = False
    assert allocate("b", gpu_container("x", 2)) == ["0,1"]

    allocator = GpuAllocator(records, {"muster-0": (0, 1, 2, 3)})
    assert allocate("b", gpu_container("x", 2)) == ["0,1"]
    assert allocate("c", gpu_container("x", 2)) == ["2,3"]


def test_a_machine_without_gpus_sets_no_gpu_variables(tmp_path: Path) -> None:
    allocator = GpuAllocator(OpenPods(tmp_path), {"muster-0": ()})
    pod = make_pod("p", gpu_container("x", 1))

    assert allocator.variables(pod, pod.spec.containers[0]) == {}


@pytest.mark.slow
@needs_namespaces
async def test_pods_see_their_own_gpus_in_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "find_gpus", fixed_gpus(0, 1))
    show = ("sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]; sleep 1000")
    limits = {"resources": {"limits": {gpus.RESOURCE: 1}}}
    async with local_node(tmp_path) as local:
        await local.run(manifest("a", container("main", *show, **limits)))
        assert await local.says("a", "]") == "[0]\n"
        await local.run(manifest("none", container("main", *show)))
        assert await local.says("none", "]") == "[]\n"
        await local.client.delete(PODS, Key("default", "a"), grace=0)
        await local.gone("a")
        await local.run(manifest("b", container("main", *show, **limits)))
        assert await local.says("b", "]") == "[0]\n"
    assert not leftovers.of(tmp_path)
