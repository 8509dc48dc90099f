"""Starting a pod's namespaces and containers: everything a process is given, put together.

Called by the pod loop. `Missing` says what the pod refers to that is not there (yet), `CannotRun`
and OSError that this machine could not; the loop tells either and tries again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api import quantity
from muster.local.node import env
from muster.local.node.runtime.interface import ContainerSpec, SandboxSpec
from muster.local.node.volumes import directories

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.node.events import EventRecorder
    from muster.local.node.machine.gpus import GpuAllocator
    from muster.local.node.network.hosts_file import HostsFiles
    from muster.local.node.pod import Container, Pod
    from muster.local.node.references import ReferenceReader, VolumeFreshness
    from muster.local.node.runtime.interface import Runtime
    from muster.local.node.service_account import ApiAddress, ServiceAccountTokens


_FROM_LOG = "FallbackToLogsOnError"


@dataclass(frozen=True)
class ContainerStarterParts:
    """Where what a container is given comes from."""

    runtime: Runtime
    names: HostsFiles
    sources: ReferenceReader
    volumes: directories.VolumeDirectories
    fresh: VolumeFreshness
    tokens: ServiceAccountTokens
    devices: GpuAllocator
    recorder: EventRecorder
    base_env: Mapping[str, str]
    api: ApiAddress


class ContainerStarter:
    def __init__(self, supplies: ContainerStarterParts) -> None:
        self._from = supplies

    async def open(self, pod: Pod) -> None:
        """Make the pod's namespaces and tell it everybody's name."""
        await self._from.runtime.open(
            SandboxSpec(
                pod.metadata.uid,
                pod.metadata.key,
                pod.hostname,
                pod.spec.host_network,
                directories.in_memory(pod),
            )
        )
        self._from.names.write(pod)

    async def start(self, pod: Pod, container: Container, number: int) -> None:
        """Start one container of the pod."""
        self._say_what_differs(pod, container)
        pod = await self._from.tokens.admit(pod)
        container = next(c for c in pod.everyone if c.name == container.name)
        record = self._from.runtime.read(pod.metadata.uid)
        self._from.fresh.note(pod)
        around = await self._from.sources.around(pod, record.address)
        base = self._base(pod, container) | self._from.devices.variables(pod, container)
        variables = env.environment(pod, container, around, base)
        places = await asyncio.to_thread(self._from.volumes.prepare, pod, around)
        await self._from.tokens.keep(pod, places)
        await self._from.runtime.start(
            ContainerSpec(
                uid=pod.metadata.uid,
                name=container.name,
                number=number,
                image=container.image,
                argv=env.command_line(container, variables),
                env=variables,
                cwd=container.working_dir or "/",
                mounts=directories.mounts(pod, container, places, variables),
                tty=container.tty,
                stdin=container.stdin,
                stdin_once=container.stdin_once,
                memory=_most_memory(container),
                message_path=container.termination_message_path,
                message_from_log=container.termination_message_policy == _FROM_LOG,
            )
        )
        said = f"Started container {container.name} ({number})"
        self._from.recorder.say(pod, "Started", said)

    async def renew(self, pod: Pod) -> float | None:
        """Replace tokens that are due, and files whose objects changed; in how many seconds to ask
        again, None for never."""
        stale = self._from.fresh.stale(pod)
        if stale:
            await self._refresh(pod)
        tokens, uid = self._from.tokens, pod.metadata.uid
        left = tokens.due_in(uid)
        if left is not None and (stale or left <= 0):
            pod = await tokens.admit(pod)
            await tokens.keep(pod, self._from.volumes.places(pod))
            left = tokens.due_in(uid)
        return left

    async def _refresh(self, pod: Pod) -> None:
        self._from.fresh.note(pod)
        address = self._from.runtime.read(pod.metadata.uid).address
        around = await self._from.sources.around(pod, address)
        await asyncio.to_thread(self._from.volumes.refresh, pod, around)

    def forget(self, uid: str) -> None:
        self._from.tokens.forget(uid)
        self._from.fresh.forget(uid)

    def _base(self, pod: Pod, container: Container) -> dict[str, str]:
        """What every container of the pod gets, and its terminal if it has one."""
        where = self._from.api.variables(host_network=pod.spec.host_network)
        terminal = {"TERM": "xterm"} if container.tty else {}
        return {**self._from.base_env, "HOSTNAME": pod.hostname, **where, **terminal}

    def _say_what_differs(self, pod: Pod, container: Container) -> None:
        """What the pod asks for that a machine without images and other users does not do."""
        said = (
            f'Image "{container.image}" was not pulled: its command runs on this machine\'s files'
        )
        self._from.recorder.remark(pod, "Pulled", said)
        if self._from.runtime.shares_files and container.volume_mounts:
            said = "Volumes cannot be mounted on this node: they are links below $MUSTER_ROOT"
            self._from.recorder.remark(pod, "VolumesNotMounted", said, warning=True)
        for context in (pod.spec.security_context, container.security_context):
            if context is not None and context.run_as_user is not None:
                said = (
                    f"runAsUser {context.run_as_user} is ignored: on this node processes run as "
                    "the user who started the cluster"
                )
                self._from.recorder.remark(pod, "RunAsUserIgnored", said, warning=True)


def _most_memory(container: Container) -> int | None:
    limit = container.resources.limits.get("memory")
    return None if limit is None else quantity.parse_whole(limit)
