"""The node's side of logs, exec, attach, port-forward, proxy and usage of pods.

Implements the API server's `NodeBackend`. It needs only the runtime and no API client, so the API
server can start first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from kubekit.request_errors import StatusError
from localkube.node import container_log_reader
from localkube.node.machine.usage import UsageMeter
from localkube.node.runtime.pod_records import read_attempt
from localkube.node.standalone import shim_socket

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from socket import socket

    from kubekit.objects.core import PodLog
    from kubekit.objects.meta import Raw
    from localkube.node.runtime.container_runtime import Runtime
    from localkube.node.runtime.shim_client import ShimConnection
    from localkube.node_interface import ExecOptions, LogOptions, Streams

_KILLED = 137
"""The exit code of a program whose shim did not report one."""


class Backend:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.usage = UsageMeter(runtime.records).usage
        # Until the node's loops run, nothing can be renewed.
        self.token_refused: Callable[[str], None] = lambda uid: None

    async def logs(self, pod: Raw, options: LogOptions) -> AsyncGenerator[bytes, None]:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        records = self._runtime.records
        numbers = records.attempts(uid, options.container)
        if options.previous:
            numbers = numbers[:-1]
        if not numbers:
            container = f'container "{options.container}" in pod "{name}"'
            raise _bad_request(
                f"previous terminated {container} not found"
                if options.previous
                else f"{container} is waiting to start{_waiting_reason(pod, options.container)}"
            )
        number = numbers[-1]
        path = records.attempt(uid, options.container, number) / "log"

        def alive() -> bool:
            return read_attempt(path.parents[1], number).alive

        async for data in container_log_reader.read(path, options, alive):
            yield data

    async def pod_logs(self) -> list[PodLog]:
        return await asyncio.to_thread(self._pod_logs)

    def _pod_logs(self) -> list[PodLog]:
        records = self._runtime.records
        # First the logs of existing pods: a log that is moved in between is in the archive.
        logs = {row.metadata.name: row for uid in records.uids() for row in records.pod_logs(uid)}
        archived = {row.metadata.name: row for row in records.archive.entries()}
        return list((archived | logs).values())

    async def read_pod_log(
        self, pod_log: PodLog, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        records = self._runtime.records
        attempt = records.attempt(pod_log.pod_uid, pod_log.container, pod_log.attempt)
        # The log may move to the archive at any moment.
        with contextlib.suppress(FileNotFoundError):
            async for data in container_log_reader.read(attempt / "log", options, lambda: False):
                yield data
            return
        path = records.archive.path(pod_log.metadata.name)
        if path is None:
            raise _bad_request(f'the log "{pod_log.metadata.name}" was removed')
        async for data in container_log_reader.read(path, options, lambda: False):
            yield data

    async def exec(self, pod: Raw, options: ExecOptions, streams: Streams) -> int:
        uid = pod["metadata"]["uid"]
        op = "exec" if options.command else "attach"
        request = {"argv": list(options.command), "tty": options.tty, "stdin": options.stdin}
        try:
            async with self._runtime.connect_shim(uid, options.container, op=op, **request) as shim:
                end = await _relay(shim, options, streams)
        except ConnectionError as error:
            name = pod["metadata"]["name"]
            raise _bad_request(
                f'container "{options.container}" in pod "{name}" is not running'
            ) from error
        if op == "attach":
            return 0  # attach succeeded; the container's exit code is in the pod's status
        code = int(end.get("exitCode", _KILLED))
        if end.get("message") and code:
            with contextlib.suppress(ConnectionError):
                await streams.stderr(f"{end['message']}\n".encode())
        return code

    async def connect(self, pod: Raw, port: int) -> socket:
        return await self._runtime.reach_from_inside(pod["metadata"]["uid"], port)

    async def address(self, pod: Raw, port: int) -> tuple[str, int]:
        record = self._runtime.records.read(pod["metadata"]["uid"])
        if not record.open:
            raise _bad_request(f'pod "{pod["metadata"]["name"]}" is not running')
        return record.address, port

    async def dial(self, address: str, port: int) -> socket:
        return await self._runtime.network.dial(address, port)


async def _relay(shim: ShimConnection, options: ExecOptions, streams: Streams) -> Raw:
    """Relay the streams until the program exits or the client disconnects; returns the last
    status."""
    end: Raw = {}
    try:
        async with asyncio.TaskGroup() as group:
            # A program of exec gets input only when it runs; attach finds it running.
            tasks = [] if options.command else _senders(group, shim, options, streams)
            async for channel, data in shim.frames():
                status = json.loads(data) if channel == shim_socket.STATUS else {}
                if status.get("state") == "running":
                    tasks = tasks or _senders(group, shim, options, streams)
                elif status:
                    end = status
                    break
                else:
                    await _send_output(channel, data, options, streams)
            for task in tasks:
                task.cancel()
    except* ConnectionError:  # the client disconnected
        pass
    return end


async def _send_output(channel: int, data: bytes, options: ExecOptions, streams: Streams) -> None:
    if channel == shim_socket.STDOUT and options.stdout:
        await streams.stdout(data)
    elif channel == shim_socket.STDERR and options.stderr:
        await streams.stderr(data)


def _senders(
    group: asyncio.TaskGroup, shim: ShimConnection, options: ExecOptions, streams: Streams
) -> list[asyncio.Task[None]]:
    # The size first: input that waits already may ask for it.
    tasks = [group.create_task(_send_sizes(shim, streams))] if options.tty else []
    if options.stdin:
        tasks.append(group.create_task(_send_input(shim, streams)))
    return tasks


async def _send_input(shim: ShimConnection, streams: Streams) -> None:
    with contextlib.suppress(ConnectionError):
        async for data in streams.stdin():
            await shim.send(shim_socket.STDIN, data)
        await shim.send(shim_socket.CLOSE_STDIN, b"")


async def _send_sizes(shim: ShimConnection, streams: Streams) -> None:
    with contextlib.suppress(ConnectionError):
        async for width, height in streams.resizes():
            size = {"Width": width, "Height": height}
            await shim.send(shim_socket.RESIZE, json.dumps(size).encode())


def _waiting_reason(pod: Raw, container: str) -> str:
    """Why a container waits, as its status says; with a colon before it."""
    status = pod.get("status") or {}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for row in status.get(field) or ():
            reason = (row.get("state") or {}).get("waiting", {}).get("reason")
            if row["name"] == container and reason:
                return f": {reason}"
    return ""


def _bad_request(message: str) -> StatusError:
    return StatusError(message, status=400, reason="BadRequest")
