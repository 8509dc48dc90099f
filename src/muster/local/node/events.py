"""Events about pods: what happened on this node, said to the API, never twice in a row.

The pod loop says; `run` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.events import EventText, event_subject
from muster.api.kinds import PODS
from muster.control.event_recorder import EventRecorder as Teller

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.kube.client import Client
    from muster.local.node.pod import Pod

COMPONENT = "muster-node"
_REMEMBERED = 4096


class EventRecorder:
    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._teller = Teller(client, clock)
        self._said: dict[tuple[str, ...], None] = {}
        self.run = self._teller.run

    def say(
        self, pod: Pod, reason: str, message: str, *, warning: bool = False, once: str = ""
    ) -> None:
        """Say it about a pod; the same thing about the same pod, or `once`, only one time."""
        news = _news(reason, message, warning)
        self._say((once or pod.metadata.uid, reason, message), pod, news)

    def remark(self, pod: Pod, reason: str, message: str, *, warning: bool = False) -> None:
        """Say it about the first of a job's pods, and of none of the others, whatever the words."""
        owner = pod.metadata.controller
        key = (owner.uid if owner else pod.metadata.uid, reason)
        self._say(key, pod, _news(reason, message, warning))

    def _say(self, said: tuple[str, ...], pod: Pod, news: EventText) -> None:
        if said in self._said:
            return
        self._said[said] = None
        if len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]
        self._teller.record(event_subject(PODS, pod.metadata, COMPONENT, pod.spec.node_name), news)


def _news(reason: str, message: str, warning: bool) -> EventText:
    return EventText(reason, message, "Warning" if warning else "Normal")
