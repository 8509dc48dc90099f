"""Stops a container: its preStop hook, then SIGTERM, then SIGKILL, within one grace period.

The pod loop may call `stop` repeatedly. Without a hook, the first call and calls with a shorter
grace period have an effect. With a hook, only the first call counts; a call without a grace period
kills at once. The loop closes the pod when its grace period is over. After a restart of the daemon
a hook may run a second time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localkube.node.runtime.attempts import AttemptKey

if TYPE_CHECKING:
    from localkube.node.events import PodEvents
    from localkube.node.pod import Container, Handler, Pod
    from localkube.node.probes.container_tasks import ContainerTasks
    from localkube.node.probes.handlers import HandlerRunner
    from localkube.node.runtime.container_runtime import Runtime

_MIN_AFTER_HOOK = 2.0
"""Seconds that a container has to exit after its hook, as in Kubernetes: a hook that takes the
whole grace period must not cost the program its SIGTERM."""


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
