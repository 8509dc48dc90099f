"""The runtime: pods become processes, and each container gets a shim that supervises it.

`Runtime` has the part that does not depend on namespaces: it starts shims, watches them, and finds
them again after a restart of the daemon. `NamespaceRuntime` and `PlainRuntime` add how a pod is
opened and closed. One task per running container waits for its shim to exit, so the pod loop hears
of an exit at once; while the node's share of descriptors is in use, containers that have none are
looked at every second. `records` reads the state of every pod from disk; the runtime calls
`changed` when the pod loop should visit a pod again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kubekit.errors import describe
from kubekit.telemetry.unexpected_errors import RepeatedLine
from localkube.node.descriptors import Descriptors
from localkube.node.machine import capacity
from localkube.node.runtime import shim_client
from localkube.node.runtime.cgroups import ControlGroups, Resources
from localkube.node.runtime.pod_records import AttemptKey, PodRecords
from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from socket import socket

    from kubekit.objects.meta import Key, Raw
    from localkube.node.network.pod_network import Network
    from localkube.node.pod import Container, Pod
    from localkube.node.runtime.rootfs import Mount
    from localkube.node.runtime.shim_client import ShimConnection

log = logging.getLogger(__name__)

_FROM_LOG = "FallbackToLogsOnError"
_EXIT_TIMEOUT = 5.0
_WATCH_AGAIN = 1.0
_not_watched = RepeatedLine(log, logging.WARNING)
_POLL, _MAX_POLL = 0.005, 0.1


@dataclass(frozen=True)
class ContainerSpec:
    """One attempt at one container."""

    attempt: AttemptKey
    container: Container
    argv: list[str]
    env: dict[str, str]
    mounts: tuple[Mount, ...]
    resources: Resources

    @property
    def cwd(self) -> str:
        return self.container.working_dir or "/"


class Runtime(ABC):
    """Runs the pods below one data directory. Other methods work only while `run` is running.

    Every method may be called twice: the pod loop repeats an action after a restart of the daemon.
    """

    shares_files: bool
    """Whether pods see this machine's files, and volumes only as links."""

    def __init__(self, data_dir: Path, network: Network) -> None:
        self.network = network
        self.groups = ControlGroups(data_dir, capacity.cpus())
        self.descriptors = Descriptors()
        self.records = PodRecords(data_dir / "pods")
        self._to_watch: asyncio.Queue[AttemptKey] = asyncio.Queue()
        # The PIDs of shims that this daemon started, and so must reap.
        self._children: dict[Path, int] = {}

    @abstractmethod
    def assign_addresses(self, keys: Iterable[Key]) -> None:
        """Give addresses to the pods of these names, as far as there are enough; other pods lose
        theirs, unless they still run."""

    @abstractmethod
    async def open(self, pod: Pod, memory_volumes: Mapping[str, str]) -> None:
        """Make the pod's namespaces, with volumes in memory: tmpfs options by name."""

    @abstractmethod
    async def start(self, spec: ContainerSpec) -> None:
        """Start an attempt at a container in the pod's namespaces."""

    @abstractmethod
    async def close(self, uid: str) -> None:
        """Kill the pod's processes and namespaces; its logs and exit codes stay."""

    @abstractmethod
    async def reach(self, uid: str, port: int) -> socket:
        """A connection to a port at the pod's address, as its peers make it."""

    @abstractmethod
    async def reach_from_inside(self, uid: str, port: int) -> socket:
        """A connection to a port of the pod, also to one on its loopback address."""

    async def run(self, changed: Callable[[str], None]) -> None:
        """Watch all containers; call `changed(uid)` when a pod should be visited again."""
        for uid in self.records.uids():
            for name in self.records.read(uid).alive:
                number = self.records.attempts(uid, name)[-1]
                self._to_watch.put_nowait(AttemptKey(uid, name, number))
        async with asyncio.TaskGroup() as group:
            while True:
                attempt = await self._to_watch.get()
                group.create_task(self._watch(attempt, changed))

    async def stop(self, uid: str, container: str, grace: float) -> None:
        """Send SIGTERM to a container, and SIGKILL after `grace` seconds."""
        with contextlib.suppress(ConnectionError):
            async with self.connect_shim(uid, container, op="stop", grace=grace):
                pass

    async def forget(self, uid: str) -> bool:
        """Close the pod and delete its record; False if something of it is left."""
        await self.close(uid)
        return await asyncio.to_thread(self.records.forget, uid)

    def connect_shim(
        self, uid: str, container: str, **request: Any
    ) -> AbstractAsyncContextManager[ShimConnection]:
        """A connection to the shim of a running container."""
        number = (self.records.attempts(uid, container) or [0])[-1]
        return shim_client.connect_shim(self.records.attempt(uid, container, number), **request)

    async def supervise(self, spec: ContainerSpec, body: Raw) -> None:
        """Start the shim of one attempt; `body` extends the shim's spec."""
        uid, name, number = spec.attempt
        folder, container = self.records.attempt(uid, name, number), spec.container
        program = {
            "argv": spec.argv,
            "env": spec.env,
            "cwd": spec.cwd,
            "tty": container.tty,
            "stdin": container.stdin,
            "stdin_once": container.stdin_once,
            "limits": self.groups.make(f"{uid}.{name}.{number}", spec.resources),
            "message_from_log": container.termination_message_policy == _FROM_LOG,
        }
        record = self.records.read(uid)
        previous = record.current(name)
        restarts = 0 if previous is None else previous.restarts + 1
        placement = {"sandbox": record.sandbox, "restarts": restarts}
        start = partial(shim_client.start_shim, folder, program | body, placement)
        self._children[folder] = await asyncio.to_thread(start)
        self._to_watch.put_nowait(spec.attempt)
        self.records.forget_old_attempts(uid, name)

    async def wait_for_shims(self, uid: str, seconds: float) -> None:
        """Wait until all shims of the pod have written exit codes and exited, or for so long."""
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + seconds, _POLL
        while self.records.supervised(uid) and clock() < deadline:
            await asyncio.sleep(pause)
            # A program that needs seconds to save a checkpoint needs the processor for it.
            pause = min(pause * 1.2, _MAX_POLL)

    async def end_shims(self, uid: str) -> None:
        """Wait for the shims of a pod whose processes were killed; kill shims that hang."""
        await self.wait_for_shims(uid, _EXIT_TIMEOUT)
        for folder in self.records.supervised(uid):
            log.warning("the shim in %s hangs, and is killed", folder)
            await asyncio.to_thread(shim_client.kill_shim, folder)
        await self.wait_for_shims(uid, _EXIT_TIMEOUT)

    async def _watch(self, attempt: AttemptKey, changed: Callable[[str], None]) -> None:
        """Report every message of a shim, and its exit."""
        folder = self.records.attempt(*attempt)
        # The lock tells whether the shim lives, not the socket. The kernel closes the files of a
        # killed process in any order: a shim that closed its socket may hold the lock a moment
        # longer.
        modified = 0
        while True:
            pause = _POLL  # there is no event for a released lock
            try:
                if not files.is_locked(folder / "lock"):
                    break
                if not self.descriptors.has_room_to_watch():
                    # Its start and its exit are new files.
                    before, modified = modified, os.stat(folder).st_mtime_ns
                    if modified != before:
                        changed(attempt.uid)
                    pause = _WATCH_AGAIN
                else:
                    async with shim_client.connect_shim(folder, op="watch") as shim:
                        async for _ in shim.frames():
                            changed(attempt.uid)
            except ConnectionError:
                pass  # the shim is about to exit
            except OSError as error:
                # No descriptor is left, for example: this pod is watched later, others go on.
                _not_watched.log("the shim in %s cannot be watched: %s", folder, describe(error))
                pause = _WATCH_AGAIN
            await asyncio.sleep(pause)
        # The shims of an earlier daemon are not our children: init reaps them.
        child = self._children.pop(folder, 0)
        if child:
            await asyncio.to_thread(os.waitpid, child, 0)
        changed(attempt.uid)
