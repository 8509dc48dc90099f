"""`arena attach JOB [-- COMMAND…]`: run a command in an instance, by default a shell in the chief.

The exit code is the command's. On a terminal, keys go through as they are pressed and the size of
the window is passed on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import click

from kubekit.errors import MusterError, single_error
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import Unsupported
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import note
from muster.cli.training_command import AttachCommand, is_shell_line
from muster.client.jobs import instances, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.client.streams.exec_session import ExecSession

CHUNK = 32 * 1024


@click.command(name="attach", cls=AttachCommand)
@name_argument()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND…]")
@click.option(
    "--instance",
    "-i",
    default="",
    help="Pod to enter, or the index of a worker  [default: the chief]",
)
@click.option("--container", "-c", default="", help="Container to enter.")
@type_option
@cluster_options
@click.pass_context
def command(
    ctx: click.Context, /, target: Target, name: str, words: tuple[str, ...], **given: str
) -> None:
    """Run a command in a replica of a job; without one, a shell.

    A command in quotes is a line for the shell of the container.

    \b
    Examples:
      arena attach hello
      arena attach hello -i hello-worker-1 nvidia-smi -L
      arena attach hello 'cd data && ls | wc -l'
    """
    cluster = target.cluster()
    with cluster.connect() as client:
        key = Key(target.namespace_in(cluster), name)
        pod = _pod(client, key, given["type_"], given["instance"])
        container = instances.container_to_enter(client, pod, given["container"])
    note(f"attached to container {container} of {pod.metadata.name}")
    run = _run(cluster.endpoint, pod.metadata.key, container, words_to_run(words))
    try:
        code = asyncio.run(run)
    except BaseExceptionGroup as group:
        raise single_error(group) from None
    ctx.exit(code)


def words_to_run(words: Sequence[str]) -> list[str]:
    """The program and its arguments; one word that a shell must read is a line for a shell."""
    if len(words) == 1 and is_shell_line(words[0]):
        return ["sh", "-c", words[0]]
    return list(words) or ["sh"]


def _pod(client: BlockingClient, key: Key, type_: str, instance: str) -> Pod:
    """The pod to enter; an error unless it is running."""
    pod = lookup.get_job_or_pod(client, key, type_)
    if not isinstance(pod, Pod):
        job = pod.summary(pod.pods(client))
        chosen = instances.instance_to_enter(job, instance)
        pod = client.get(PODS, Key(job.namespace, chosen.name))
    if pod.finished:
        raise MusterError(
            f"{pod.metadata.name} has ended ({pod.status.phase}); nothing can run in it any more",
            hint=f"`arena logs {pod.metadata.name}` shows its output.",
        )
    if pod.status.phase != "Running":
        raise MusterError(
            f"{pod.metadata.name} is not running",
            hint=f"`arena get pod/{pod.metadata.name}` says why.",
        )
    return pod


async def _run(endpoint: Endpoint, pod: Key, container: str, words: list[str]) -> int:
    from kubekit.client.client import Client

    tty = sys.stdin.isatty() and sys.stdout.isatty()
    async with (
        Client.connect(endpoint, user_agent="arena") as client,
        client.exec(pod, words, container=container, stdin=True, tty=tty) as session,
    ):
        with _raw_terminal() if tty else nullcontext():
            async with asyncio.TaskGroup() as group:
                # The size first: a command that was typed ahead may ask for it.
                tasks = [group.create_task(_send_sizes(session))] if tty else []
                tasks.append(group.create_task(_send_input(session)))
                async for channel, data in session:
                    stream = sys.stdout if channel == 1 else sys.stderr
                    stream.buffer.write(data)
                    stream.buffer.flush()
                for task in tasks:
                    task.cancel()  # the command has ended; the user may never type again
        return session.exit_code or 0


async def _send_sizes(session: ExecSession) -> None:
    """Send the size of the window now and after every change."""
    resized = asyncio.Event()
    resized.set()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resized.set)
    while True:
        await resized.wait()
        resized.clear()
        size = os.get_terminal_size(sys.stdout.fileno())
        await session.resize(size.columns, size.lines)


async def _send_input(session: ExecSession) -> None:
    """Send standard input as it arrives, then its end."""
    loop = asyncio.get_running_loop()
    reader, stdin = asyncio.StreamReader(), sys.stdin.fileno()

    def ready() -> None:
        # Not asyncio's pipe transport: it makes the terminal non-blocking for our output too.
        data = os.read(stdin, CHUNK)
        if data:
            reader.feed_data(data)
        else:
            loop.remove_reader(stdin)
            reader.feed_eof()

    try:
        loop.add_reader(stdin, ready)
    except PermissionError:  # epoll rejects plain files and /dev/null: they are always ready
        await session.write(os.read(stdin, os.fstat(stdin).st_size))
    else:
        while data := await reader.read(CHUNK):
            await session.write(data)
    with suppress(Unsupported):  # an old server's protocol has no message for the end
        await session.close_stdin()


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass keys on one by one and without echo: the container's own terminal echoes them."""
    import termios
    import tty

    stdin = sys.stdin.fileno()
    settings = termios.tcgetattr(stdin)
    tty.setraw(stdin, termios.TCSADRAIN)  # unlike TCSAFLUSH, this keeps keys typed ahead
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, settings)
