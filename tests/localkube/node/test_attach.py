"""Attach: all input arrives, whenever the program reads it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from localkube.node_interface import ExecOptions
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import LocalNode, Raw, local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.slow, needs_namespaces]

MUCH = 4 << 20
CHUNK = 32 << 10


class Typist:
    """A client that sends much input, and records the output."""

    def __init__(self, amount: int = MUCH, *, after: bytes = b"", then_stay: bool = False) -> None:
        self._amount = amount
        self._after = after
        self._stays = then_stay
        self.typed = 0
        self.done = False
        self.out = b""

    async def stdin(self) -> AsyncIterator[bytes]:
        await eventually(lambda: self._after in self.out, what="the output to answer to")
        while self.typed < self._amount:
            yield b"x" * CHUNK
            self.typed += CHUNK
        self.done = True
        if self._stays:
            await asyncio.Event().wait()

    async def resizes(self) -> AsyncIterator[tuple[int, int]]:
        no_terminal: tuple[tuple[int, int], ...] = ()
        for size in no_terminal:
            yield size

    async def stdout(self, data: bytes) -> None:
        self.out += data

    async def stderr(self, data: bytes) -> None:
        self.out += data


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalNode]:
    async with local_node(tmp_path / "home") as node:
        yield node
    assert not leftovers.of(tmp_path / "home")


def gated(gate: Path, script: str, **fields: object) -> Raw:
    """A pod whose program may wait for files in /gate."""
    gate.mkdir()
    mounts = [{"name": "gate", "mountPath": "/gate"}]
    once = {"stdin": True, "stdinOnce": True, "volumeMounts": mounts}
    body = container("main", "sh", "-c", script, **(once | fields))
    return manifest("p", body, volumes=[{"name": "gate", "hostPath": {"path": str(gate)}}])


WAIT = "until [ -e /gate/go ]; do sleep 0.02; done; "


async def test_a_program_that_reads_late_gets_all_input_and_then_end_of_file(
    local: LocalNode, tmp_path: Path
) -> None:
    await local.run(gated(tmp_path / "gate", WAIT + "wc -c"))
    pod = await local.phase("p", "Running")
    typist = Typist()

    async with asyncio.TaskGroup() as group:
        attached = group.create_task(
            local.backend.exec(pod, ExecOptions("main", stdin=True), typist)
        )
        await eventually(lambda: typist.typed >= 4 * CHUNK, what="more than a pipe holds")
        (tmp_path / "gate" / "go").touch()

    assert attached.done()
    assert typist.out.decode().split() == [str(MUCH)]


async def test_input_is_not_read_while_the_program_does_not_read(
    local: LocalNode, tmp_path: Path
) -> None:
    """So the shim's buffer for it is bounded."""
    await local.run(gated(tmp_path / "gate", WAIT + "wc -c"))
    pod = await local.phase("p", "Running")
    first, second = Typist(), Typist(CHUNK)

    async with asyncio.TaskGroup() as group:
        options = ExecOptions("main", stdin=True)
        group.create_task(local.backend.exec(pod, options, first))
        await eventually(lambda: first.typed >= 4 * CHUNK, what="more than a pipe holds")
        other = ExecOptions("main", ("true",))
        assert await local.backend.exec(pod, other, second) == 0  # the shim is not busy
        assert first.typed < MUCH
        (tmp_path / "gate" / "go").touch()

    assert first.typed == MUCH


async def test_a_terminal_whose_program_does_not_read_blocks_nothing_else(
    local: LocalNode, tmp_path: Path
) -> None:
    script = "stty raw -echo; echo; i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.02; done"
    await local.run(gated(tmp_path / "gate", script, tty=True))
    await local.says("p", "tick 1")
    pod = await local.phase("p", "Running")
    typist = Typist()

    async with asyncio.TaskGroup() as group:
        options = ExecOptions("main", stdin=True, tty=True)
        attached = group.create_task(local.backend.exec(pod, options, typist))
        await eventually(lambda: typist.typed >= 4 * CHUNK, what="more than a terminal holds")
        length = len(await local.log("p"))
        await eventually(lambda: typist.out.count(b"tick") > 20, what="more ticks")
        assert len(await local.log("p")) > length
        assert await local.backend.exec(pod, ExecOptions("main", ("true",)), Typist(0)) == 0
        await local.client.delete(PODS, Key("default", "p"), grace=1)
        await local.gone("p")

    assert attached.done()


async def test_a_terminal_of_exec_relays_more_than_its_buffers_hold(
    local: LocalNode, tmp_path: Path
) -> None:
    """The program also prints more than they hold before it reads."""
    await local.run(gated(tmp_path / "gate", "sleep 1000"))
    pod = await local.phase("p", "Running")
    amount = 32 * CHUNK
    prints = "head -c 500000 /dev/zero | tr '\\0' .; "
    command = ("sh", "-c", f"stty raw -echo; echo ready; {prints}head -c {amount} | wc -c")
    typist = Typist(amount, after=b"ready")

    async with asyncio.timeout(20):
        options = ExecOptions("main", command, stdin=True, tty=True)
        assert await local.backend.exec(pod, options, typist) == 0

    assert typist.out.split(b".")[-1].split() == [str(amount).encode()]


async def test_a_container_with_a_terminal_has_a_term_variable_unless_it_sets_another(
    local: LocalNode,
) -> None:
    ask = ("sh", "-c", 'echo "<$TERM>"')
    own_term = [{"name": "TERM", "value": "vt100"}]
    await local.run(
        manifest("p", container("main", *ask, tty=True)),
        manifest("own", container("main", *ask, tty=True, env=own_term)),
        manifest("none", container("main", *ask)),
    )
    for name, term in (("p", "<xterm>"), ("own", "<vt100>"), ("none", "<>")):
        await local.ended(name)
        assert (await local.log(name)).strip() == term


async def test_with_stdin_once_the_input_closes_with_the_first_client(
    local: LocalNode, tmp_path: Path
) -> None:
    """Also if this client disconnects without closing its input."""
    await local.run(gated(tmp_path / "gate", "echo up; wc -c"))
    await local.says("p", "up")
    pod = await local.phase("p", "Running")
    async with asyncio.TaskGroup() as group:
        typist = Typist(CHUNK, then_stay=True)
        attached = group.create_task(
            local.backend.exec(pod, ExecOptions("main", stdin=True), typist)
        )
        await eventually(lambda: typist.typed == CHUNK, what="all input is sent")
        attached.cancel()

    assert (await local.ended("p"))["exitCode"] == 0
    assert (await local.log("p")).split() == ["up", str(CHUNK)]


async def test_without_stdin_once_the_next_client_continues_the_input(
    local: LocalNode, tmp_path: Path
) -> None:
    script = f"head -c {2 * CHUNK} | wc -c"
    await local.run(gated(tmp_path / "gate", script, stdinOnce=False))
    pod = await local.phase("p", "Running")
    options = ExecOptions("main", stdin=True)
    async with asyncio.TaskGroup() as group:
        for typist in (Typist(CHUNK), Typist(CHUNK)):
            group.create_task(local.backend.exec(pod, options, typist))
            await eventually(lambda client=typist: client.done, what="all input is sent")  # type: ignore[misc]

    assert (await local.log("p")).split() == [str(2 * CHUNK)]
