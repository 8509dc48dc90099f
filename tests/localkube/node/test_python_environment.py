"""The virtual environment of a pod's Python: a pod may add to it, and nobody else sees that."""

from __future__ import annotations

import sysconfig
import venv
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from localkube.node.standalone.linux import kernel
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import ROOTLESS, LocalNode, local_node, needs_namespaces
from tests.localkube.node.pod_builders import shell

pytestmark = [pytest.mark.slow, needs_namespaces]
PACKAGES = f"lib/python{sysconfig.get_python_version()}/site-packages"
ADD_MODULE = f"""
    cd $(python -c 'import sys; print(sys.prefix)')
    echo 'VERSION = 7' > {PACKAGES}/added.py && python -c 'import added; print(added.VERSION)'
    rm {PACKAGES}/there.py && python -c 'import there' 2>&1 | tail -n 1
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with one module; the comma separates options of a mount elsewhere."""
    folder = tmp_path / "my,env"
    venv.create(folder, with_pip=False, symlinks=True)
    (folder / PACKAGES / "there.py").touch()
    return folder


@pytest.fixture
async def local(tmp_path: Path, environment: Path) -> AsyncIterator[LocalNode]:
    home = tmp_path / "cluster"
    async with local_node(home, python=str(environment / "bin/python")) as node:
        yield node
    assert not leftovers.of(home)


async def test_a_pod_changes_its_own_copy_of_the_environment(
    local: LocalNode, environment: Path
) -> None:
    await local.run(shell("adds", ADD_MODULE))
    ended = await local.phase("adds", "Succeeded")
    await local.run(shell("other", "python -c 'import there, added'"))
    await local.ended("other")

    assert await local.log("adds") == "7\nModuleNotFoundError: No module named 'there'\n"
    assert "No module named 'added'" in await local.log("other")
    assert (environment / PACKAGES / "there.py").exists()
    assert not (environment / PACKAGES / "added.py").exists()
    conditions = [row["type"] for row in ended["status"]["conditions"]]
    assert "muster.dev/FilesDiscarded" not in conditions


async def test_an_environment_with_the_clusters_state_in_it_cannot_be_changed(
    environment: Path,
) -> None:
    home = environment / "cluster"
    python = str(environment / "bin/python")
    async with local_node(home, python=python) as node:
        await node.run(shell("looks", f"ls {environment}/cluster; touch {environment}/x"))
        await node.ended("looks")
        text = await node.log("looks")

    assert [line for line in text.splitlines() if "touch: " not in line] == []
    assert "Read-only file system" in text


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    """A directory on an overlay file system, which cannot store the changes of another one."""
    folders = {"lowerdir": tmp_path / "l", "upperdir": tmp_path / "u", "workdir": tmp_path / "w"}
    target = tmp_path / "overlay"
    for folder in (*folders.values(), target):
        folder.mkdir()
    options = ",".join(f"{name}={folder}" for name, folder in folders.items())
    kernel.mount("overlay", str(target), "overlay", data=options)
    yield target
    kernel.unmount(str(target))


@pytest.mark.skipif(ROOTLESS, reason="only root makes the file system of this test")
async def test_where_the_kernel_refuses_an_overlay_pods_run_with_a_read_only_environment(
    overlay: Path, environment: Path
) -> None:
    async with local_node(overlay / "cluster", python=str(environment / "bin/python")) as node:
        await node.run(shell("tries", f"python -c 'import there'; touch {environment}/x"))
        await node.ended("tries")

        assert await node.log("tries") == (
            f"touch: cannot touch '{environment}/x': Read-only file system\n"
        )
