"""The table of everything that pages watch: which objects, and which topics a change concerns.

A topic is the name of something that a page shows: `jobs`, `nodes`, `line`, `job:NAMESPACE/NAME`,
`events:NAMESPACE/NAME` (of the object that the event is about). A page whose topic changed is
fetched again. The topic `cluster` is about the room on nodes and who waits for it: heartbeats of
nodes and probes of pods, which come all the time, do not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kubekit.objects import kinds
from kubekit.objects.meta import Key, Raw, find_condition, key_of, mapping
from muster.contract import exported_models, waiting_line_format
from muster.contract.job_resources import JOB_KINDS
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubekit.objects.core import ConfigMap, Node, Pod
    from kubekit.objects.kinds import Kind

T = TypeVar("T")

BY_JOB = "job"
"""The index of pods by `NAMESPACE/NAME` of their job."""
CLUSTER = "cluster"


@dataclass(frozen=True, eq=False)
class Source(Generic[T]):
    """Objects of one kind that pages show."""

    kind: Kind[T]
    topics: Callable[[T], Iterable[str]]
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    index: Callable[[T], Iterable[str]] | None = None
    """Of pods: the values of `BY_JOB`."""
    room: Callable[[T], object] | None = None
    """The fields whose change concerns the topic `cluster`."""

    def topics_of(self, old: T | None, new: T | None) -> tuple[str, ...]:
        """The topics of a change; None is an object before its creation or after its deletion."""
        current = old if new is None else new
        assert current is not None
        topics = tuple(self.topics(current))
        if self.room is None:
            return topics
        if old is not None and new is not None and self.room(old) == self.room(new):
            return topics
        return (*topics, CLUSTER)


def _job_of_pod(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.labels.get(names.JOB)
    return (str(Key(pod.metadata.namespace, name)),) if name else ()


def _topics_of_pod(pod: Pod) -> tuple[str, ...]:
    jobs = _job_of_pod(pod)
    return ("pods", "jobs", f"job:{jobs[0]}") if jobs else ("pods",)


def _topics_of_job(job: Raw) -> tuple[str, ...]:
    return ("jobs", f"job:{key_of(job)}")


def _topics_of_event(event: Raw) -> tuple[str, ...]:
    subject = mapping(event.get("involvedObject"))
    return ("events", f"events:{Key(key_of(event).namespace, str(subject.get('name')))}")


def _topics_of_node(_: Node) -> tuple[str, ...]:
    return ("nodes",)


def _topics_of_line(_: ConfigMap) -> tuple[str, ...]:
    return ("line",)


def _topics_of_model(config_map: ConfigMap) -> tuple[str, ...]:
    return ("models", f"model:{config_map.metadata.key}")


def _room_of_pod(pod: Pod) -> tuple[object, ...]:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    return pod.spec.node_name, pod.status.phase, scheduled, pod.metadata.deletion_timestamp


def _room_of_node(node: Node) -> tuple[object, ...]:
    conditions = [(row.type, row.status) for row in node.status.conditions]
    return node.metadata.labels, node.spec, node.status.allocatable, conditions


PODS = Source(kinds.PODS, _topics_of_pod, index=_job_of_pod, room=_room_of_pod)
NODES = Source(kinds.NODES, _topics_of_node, room=_room_of_node)
EVENTS: Source[Raw] = Source(kinds.EVENTS.read_as(dict), _topics_of_event)
LINE = Source(
    kinds.CONFIG_MAPS,
    _topics_of_line,
    room=lambda config_map: config_map.data,
    namespace=waiting_line_format.NAMESPACE,
    fields=f"metadata.name={waiting_line_format.CONFIG_MAP}",
)
JOBS: dict[str, Source[Raw]] = {kind.kind: Source(kind, _topics_of_job) for kind in JOB_KINDS}
"""By kind: `TFJob`, `MPIJob`, …"""
MODELS = Source(kinds.CONFIG_MAPS, _topics_of_model, labels=exported_models.MODEL)
FIRST: tuple[Source[Any], ...] = (NODES, PODS, LINE)
"""What the first pages of a reader show, besides jobs: it is fetched at the login."""
