"""Opens a pod's namespaces, starts its containers with all that they need, and stops them.

To start one raises `MissingReference` for an object that does not exist yet, `CannotRun` or OSError
if this machine fails; the pod loop reports both and tries again.

To stop one runs its preStop hook, then SIGTERM, then SIGKILL, within one grace period. The pod loop
may call `stop` repeatedly. Without a hook, the first call and calls with a shorter grace period
have an effect. With a hook, only the first call counts; a call without a grace period kills at
once. The loop closes the pod when its grace period is over. After a restart of the daemon a hook
may run a second time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.objects import quantity
from kubekit.objects.core import Quantity, Service, check_image_name
from localkube.node import env_and_files
from localkube.node.network.service_addresses import service_links
from localkube.node.pod import Container, Handler, MissingReference, Pod
from localkube.node.runtime.cgroups import Resources, processes_per_pod
from localkube.node.runtime.container_runtime import ContainerSpec, Runtime
from localkube.node.runtime.pod_records import AttemptKey
from localkube.node.service_account import TOKEN_DIRECTORY, ApiAddress, ServiceAccountTokens
from localkube.node.volumes import VolumeDirectories, in_memory, mounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.watch.informer import Informer
    from localkube.node.config_maps_and_secrets import ReferenceReader, VolumeFreshness
    from localkube.node.machine.gpus import GpuAllocator
    from localkube.node.network.hosts_file import HostsFiles
    from localkube.node.pod_events import PodEvents
    from localkube.node.probes import ContainerTasks, HandlerRunner

_MIN_AFTER_HOOK = 2.0
"""Seconds that a container has to exit after its hook, as in Kubernetes: a hook that takes the
whole grace period must not cost the program its SIGTERM."""


@dataclass(frozen=True)
class ContainerStarter:
    runtime: Runtime
    hosts_files: HostsFiles
    references: ReferenceReader
    volumes: VolumeDirectories
    freshness: VolumeFreshness
    tokens: ServiceAccountTokens
    gpus: GpuAllocator
    events: PodEvents
    base_env: Mapping[str, str]
    api: ApiAddress
    services: Informer[Service]
    machine_image: str
    """The image that stands for this machine's files."""

    async def open(self, pod: Pod) -> None:
        """Make the pod's namespaces and its `/etc/hosts`."""
        await self.runtime.open(pod, in_memory(pod))
        self.hosts_files.write(pod)

    async def start(self, pod: Pod, container: Container, number: int) -> None:
        """Start one attempt at a container of the pod."""
        check_image_name(container.image)
        self._report_differences(pod, container)
        # Before the token volume is added: `renew` compares the pod's own volumes.
        self.freshness.mark_current(pod)
        # The token volume comes next: the steps below treat it like the pod's own volumes.
        pod = await self.tokens.with_token_volume(pod)
        container = next(c for c in pod.with_ephemeral if c.name == container.name)
        record = self.runtime.records.read(pod.metadata.uid)
        context = await self.references.read(pod, record.address)
        base = self._base(pod, container) | self.gpus.variables(pod, container)
        variables = env_and_files.environment(pod, container, context, base)
        directories = await asyncio.to_thread(self.volumes.prepare, pod, context)
        await self.tokens.renew(pod, directories)
        await self.runtime.start(
            ContainerSpec(
                AttemptKey(pod.metadata.uid, container.name, number),
                container,
                command_line(container, variables),
                variables,
                mounts(pod, container, directories, variables),
                _resources(pod, container),
            )
        )
        attempt = f"{pod.metadata.uid}/{container.name}/{number}"
        self.events.record(pod, "Started", f"Started container {container.name}", once=attempt)

    async def renew(self, pod: Pod) -> float | None:
        """Renew tokens that are due and volumes whose objects changed.

        Returns the seconds until the next renewal; None if the pod has no token.
        """
        uid = pod.metadata.uid
        stale = self.freshness.is_stale(pod)
        if stale:
            self.freshness.mark_current(pod)
            context = await self.references.read(pod, self.runtime.records.read(uid).address)
            await asyncio.to_thread(self.volumes.refresh, pod, context)
        left = self.tokens.due_in(uid)
        # A refresh removes a token that shares a subdirectory with replaced files.
        if left is not None and (stale or left <= 0):
            pod = await self.tokens.with_token_volume(pod)
            await self.tokens.renew(pod, self.volumes.own(pod))
            left = self.tokens.due_in(uid)
        return left

    def forget(self, uid: str) -> None:
        self.tokens.forget(uid)
        self.freshness.forget(uid)

    def _base(self, pod: Pod, container: Container) -> dict[str, str]:
        """The environment before the container's own variables."""
        links = service_links(pod, self.services.all())
        api = self.api.variables(host_network=pod.spec.host_network)
        terminal = {"TERM": "xterm"} if container.tty else {}
        return {**links, **self.base_env, "HOSTNAME": pod.hostname, **api, **terminal}

    def _report_differences(self, pod: Pod, container: Container) -> None:
        """Record events about fields that this node does not honour: it has no images and only
        one user."""
        record = self.events.record_once_per_owner
        if container.image != self.machine_image:
            image = f'Image "{container.image}"'
            message = f"{image} was not pulled: its command runs on this machine's files"
            record(pod, "ImageNotPulled", message)
        own = [m for m in container.volume_mounts if m.mount_path != TOKEN_DIRECTORY]
        if self.runtime.shares_files and own:
            message = "Volumes cannot be mounted on this node: they are links below $MUSTER_ROOT"
            record(pod, "VolumesNotMounted", message, warning=True)
        for context in (pod.spec.security_context, container.security_context):
            if context is not None and context.run_as_user is not None:
                message = (
                    f"runAsUser {context.run_as_user} is ignored: on this node processes run as "
                    "the user who started the cluster"
                )
                record(pod, "RunAsUserIgnored", message, warning=True)


def _resources(pod: Pod, container: Container) -> Resources:
    limits, requests = container.resources.limits, container.resources.requests
    return Resources(
        cpu_limit=_amount("cpu", limits),
        cpu_request=_amount("cpu", requests),
        memory_limit=_amount("memory", limits),
        # The containers share the pod's limit evenly: groups of containers are not nested in one.
        pids_limit=processes_per_pod() // len(pod.all_containers),
    )


def _amount(resource: str, amounts: Mapping[str, Quantity]) -> int | None:
    value = amounts.get(resource)
    return None if value is None else quantity.parse_amount(resource, value)


@dataclass(frozen=True)
class ContainerStopper:
    runtime: Runtime
    handlers: HandlerRunner
    events: PodEvents
    tasks: ContainerTasks

    async def stop(self, pod: Pod, container: Container, number: int, grace: float) -> None:
        """Begin to stop a container that must have exited in `grace` seconds."""
        # With no grace period there is no time for a hook.
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None or grace <= 0:
            await self.runtime.stop(pod.metadata.uid, container.name, grace)
            return
        attempt = AttemptKey(pod.metadata.uid, container.name, number)
        self.tasks.start(attempt, lambda: self._hook_and_stop(attempt, pod, container, hook, grace))

    def forget(self, uid: str) -> None:
        for attempt in self.tasks.attempts(uid):
            self.tasks.stop(attempt)

    async def _hook_and_stop(
        self, attempt: AttemptKey, pod: Pod, container: Container, hook: Handler, grace: float
    ) -> None:
        clock = asyncio.get_running_loop().time
        deadline = clock() + grace  # the hook's time is part of the grace period
        result = await self.handlers.run(attempt.uid, container, hook, grace)
        if not result.ok:
            message = f"PreStopHook failed: {result.output}"
            self.events.record(pod, "FailedPreStopHook", message, warning=True, once=str(attempt))
        left = max(deadline - clock(), _MIN_AFTER_HOOK)
        await self.runtime.stop(attempt.uid, container.name, left)


def command_line(container: Container, env: Mapping[str, str]) -> list[str]:
    """The program and its arguments. There is no image that could provide the command."""
    words = (*container.command, *container.args)
    if not words and container.stdin and container.tty:
        return ["sh"]  # as with most images: `kubectl debug -it` names no command
    if not words:
        raise MissingReference(
            "no command: there is no image to take one from, so set command or args"
        )
    if words[0].startswith("-"):
        raise MissingReference(
            "no command: args are for the program of an image, and there is none, so set command"
        )
    return [env_and_files.expand(word, env) for word in words]
