"""Events about pods. Each is recorded once, although the pod loop reports it on every visit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.control.event_recorder import EventRecorder
from kubekit.objects.events import EventText, event_subject
from kubekit.objects.kinds import PODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.client.client import Client
    from localkube.node.pod import Pod

COMPONENT = "muster-node"
_MAX_REMEMBERED = 4096


class PodEvents:
    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self.recorder = EventRecorder(client, clock)
        """For events about other objects than pods."""
        self._recorded: dict[tuple[str, ...], None] = {}
        self.run = self.recorder.run

    def record(
        self, pod: Pod, reason: str, message: str, *, warning: bool = False, once: str = ""
    ) -> None:
        """Record an event once per pod and message, or once per `once` and message."""
        self._record((once or pod.metadata.uid, reason, message), pod, message, warning)

    def record_once_per_owner(
        self, pod: Pod, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Record an event on the first of an owner's pods only, whatever the message."""
        owner = pod.metadata.controller
        self._record((owner.uid if owner else pod.metadata.uid, reason), pod, message, warning)

    def _record(self, key: tuple[str, ...], pod: Pod, message: str, warning: bool) -> None:
        if key in self._recorded:
            return
        # A dict as an ordered set: the oldest entry goes first.
        self._recorded[key] = None
        if len(self._recorded) > _MAX_REMEMBERED:
            del self._recorded[next(iter(self._recorded))]
        text = EventText(key[1], message, "Warning" if warning else "Normal")
        subject = event_subject(PODS, pod.metadata, COMPONENT, pod.spec.node_name)
        self.recorder.record(subject, text)
