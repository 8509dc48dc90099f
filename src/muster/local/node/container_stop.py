"""Stopping a container: its preStop hook, then the request to end, then the kill, in one grace.

The pod loop asks once or often; only the first asking, or a shorter grace, has an effect, while a
hook runs none: at the end of its time the loop closes the pod. After a restart of the daemon a hook
may run a second time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from muster.local.node.probes.tasks import AttemptKey, ContainerTasks

if TYPE_CHECKING:
    from muster.local.node.events import EventRecorder
    from muster.local.node.pod import Container, Pod
    from muster.local.node.probes.prober import RunsHandlers
    from muster.local.node.runtime.interface import Runtime

_AFTER_HOOK = 2.0
"""Seconds that a container has to end after its hook, however long that took."""


class ContainerStopper:
    def __init__(
        self, runtime: Runtime, asks: RunsHandlers, recorder: EventRecorder, crew: ContainerTasks
    ) -> None:
        self._runtime = runtime
        self._asks = asks
        self._recorder = recorder
        self._crew = crew

    async def stop(self, pod: Pod, container: Container, number: int, grace: float) -> None:
        """Begin to stop a container that is to be gone in `grace` seconds."""
        uid = pod.metadata.uid
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is None or grace <= 0:
            await self._runtime.stop(uid, container.name, grace)
            return
        place = AttemptKey(uid, container.name, number)
        self._crew.start(place, lambda: self._hook_and_stop(place, pod, container, grace))

    def forget(self, uid: str) -> None:
        for place in self._crew.places(uid):
            self._crew.stop(place)

    async def _hook_and_stop(
        self, place: AttemptKey, pod: Pod, container: Container, grace: float
    ) -> None:
        assert container.lifecycle is not None
        hook = container.lifecycle.pre_stop
        assert hook is not None
        begun = asyncio.get_running_loop().time()
        result = await self._asks.ask(place.uid, container, hook, grace)
        if not result.well:
            said = f"PreStopHook failed: {result.said}"
            self._recorder.say(pod, "FailedPreStopHook", said, warning=True, once=str(place))
        left = grace - (asyncio.get_running_loop().time() - begun)
        await self._runtime.stop(place.uid, container.name, max(left, _AFTER_HOOK))
