"""Exec and attach in real pods."""

from __future__ import annotations

import pytest

from localkube.node_interface import ExecOptions
from tests.localkube.node.exec_client import ExecClient
from tests.localkube.node.local_node import LocalNode, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest, shell

pytestmark = [pytest.mark.slow, needs_namespaces]


async def test_exec_runs_inside_the_pod_and_returns_the_exit_code(local: LocalNode) -> None:
    await local.run(shell("p", "touch /tmp/mark; echo ready; sleep 1000"))
    await local.says("p", "ready")
    pod = await local.phase("p", "Running")
    command = ("sh", "-c", "ls /tmp/mark; hostname; cat; echo bad >&2; exit 4")
    client = ExecClient(b"typed\n")

    code = await local.backend.exec(pod, ExecOptions("main", command, stdin=True), client)

    assert (client.out, client.err, code) == (b"/tmp/mark\np\ntyped\n", b"bad\n", 4)


async def test_exec_starts_in_the_working_directory_of_the_container(local: LocalNode) -> None:
    main = container("main", "sleep", "1000", workingDir="/tmp/project")
    await local.run(manifest("p", main))
    pod = await local.phase("p", "Running")
    client = ExecClient(b"")

    await local.backend.exec(pod, ExecOptions("main", ("pwd",)), client)

    assert client.out == b"/tmp/project\n"


async def test_a_terminal_has_the_requested_size(local: LocalNode) -> None:
    await local.run(shell("p", "sleep 1000"))
    pod = await local.phase("p", "Running")
    command = ("sh", "-c", "until [ \"$(stty size)\" = '43 132' ]; do sleep 0.02; done; tty")
    client = ExecClient(b"", size=(132, 43))

    options = ExecOptions("main", command, stdin=True, tty=True)
    code = await local.backend.exec(pod, options, client)

    assert (client.out, code) == (b"/dev/pts/0\r\n", 0)


async def test_input_that_was_typed_ahead_finds_the_terminal_in_its_size(local: LocalNode) -> None:
    await local.run(shell("p", "sleep 1000"))
    pod = await local.phase("p", "Running")
    client = ExecClient(b"\n", size=(132, 43))

    options = ExecOptions("main", ("sh", "-c", "read line; stty size"), stdin=True, tty=True)
    await local.backend.exec(pod, options, client)

    assert b"43 132\r\n" in client.out


async def test_exec_of_an_unknown_program_fails_with_a_reason(local: LocalNode) -> None:
    await local.run(shell("p", "sleep 1000"))
    pod = await local.phase("p", "Running")
    client = ExecClient(b"")

    code = await local.backend.exec(pod, ExecOptions("main", ("nothing-like-it",)), client)

    assert code == 127
    assert client.err == b'cannot run "nothing-like-it": No such file or directory\n'


async def test_attach_relays_the_containers_output_and_input(
    local: LocalNode,
) -> None:
    """Attach itself succeeds, whatever the container's exit code is."""
    script = "read word; echo heard $word; echo why > /dev/termination-log; exit 6"
    await local.run(manifest("p", container("main", "sh", "-c", script, stdin=True)))
    pod = await local.phase("p", "Running")
    client = ExecClient(b"hello\n")

    code = await local.backend.exec(pod, ExecOptions("main", stdin=True), client)

    assert (client.out, client.err, code) == (b"heard hello\n", b"", 0)
    assert (await local.ended("p"))["exitCode"] == 6
