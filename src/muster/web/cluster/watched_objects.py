"""Everything that pages watch: which objects, of which namespaces, and the topics of a change.

A topic is the name of something that a page shows: `jobs`, `nodes`, `line`, `job:NAMESPACE/NAME`,
`events:NAMESPACE/NAME` (of the object that the event is about). A page whose topic changed is
fetched again. The topic `cluster` is about the room on nodes and who waits for it: heartbeats of
nodes and probes of pods, which come all the time, do not change it.

A user without the right to list a kind in all namespaces has an informer per namespace instead.
Kubernetes has no question "where may I read?", only "what may I do in this namespace?". So there
are candidates: those that the user has named, the namespace of the kubeconfig, the one of a service
account, and all namespaces if the user may list those. Those where the user may list pods or jobs
are shown. The informer of all namespaces goes on to ask, so a right that is granted later is used.

A browser that opens a page should see something at once, even if the cluster has thousands of pods
to send. So a page's request has little patience: after it, `StillLoading` is raised, the reader
sees which objects are on the way, and the browser asks again, with all the patience.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kubekit.errors import MusterError
from kubekit.objects import kinds
from kubekit.objects.meta import Key, Raw, find_condition, key_of, mapping
from kubekit.request_errors import ApiError, Unreachable
from kubekit.rights import READ, MissingRight, rule
from muster.contract import exported_models, waiting_line_format
from muster.contract.job_kinds import JOB_KINDS
from muster.jobs import names, quota_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kubekit.client.client import Client
    from kubekit.objects.core import Node, Pod
    from kubekit.objects.kinds import Kind
    from kubekit.watch.informer import Informer


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


def _topics_of_event(event: Raw) -> tuple[str, ...]:
    subject = mapping(event.get("involvedObject"))
    return ("events", f"events:{Key(key_of(event).namespace, str(subject.get('name')))}")


def _room_of_pod(pod: Pod) -> tuple[object, ...]:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    return pod.spec.node_name, pod.status.phase, scheduled, pod.metadata.deletion_timestamp


def _room_of_node(node: Node) -> tuple[object, ...]:
    conditions = [(row.type, row.status) for row in node.status.conditions]
    return node.metadata.labels, node.spec, node.status.allocatable, conditions


PODS = Source(kinds.PODS, _topics_of_pod, index=_job_of_pod, room=_room_of_pod)
NODES = Source(kinds.NODES, lambda _: ("nodes",), room=_room_of_node)
EVENTS: Source[Raw] = Source(kinds.EVENTS.read_as(dict), _topics_of_event)
LINE = Source(
    kinds.CONFIG_MAPS,
    lambda _: ("line",),
    room=lambda config_map: config_map.data,
    namespace=waiting_line_format.NAMESPACE,
    fields=f"metadata.name={waiting_line_format.CONFIG_MAP}",
)
JOBS: dict[str, Source[Raw]] = {
    kind.kind: Source(
        kind,
        lambda job: ("jobs", f"job:{key_of(job)}"),
        room=partial(quota_line.standing, kind.kind),
    )
    for kind in JOB_KINDS
}
"""By kind: `TFJob`, `MPIJob`, …"""
MODELS = Source(
    kinds.CONFIG_MAPS,
    lambda config_map: ("models", f"model:{config_map.metadata.key}"),
    labels=exported_models.MODEL,
)
FIRST: tuple[Source[Any], ...] = (NODES, PODS, LINE)
"""What the first pages of a reader show, besides jobs: it is fetched at the login."""


class Objects(Generic[T]):
    """The live objects of one source."""

    def __init__(self, whole: Informer[T]) -> None:
        self.kind: Kind[T] = whole.kind
        self._whole = whole
        self._parts: dict[str, Informer[T]] = {}

    @property
    def is_divided(self) -> bool:
        return bool(self._parts)

    @property
    def informers(self) -> Sequence[Informer[T]]:
        """Those whose objects are shown."""
        if self._whole.refused and self._parts:
            return tuple(self._parts.values())
        return (self._whole,)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are shown, if not all are."""
        if not self._whole.refused:
            return ()
        return tuple(name for name, part in self._parts.items() if not part.refused)

    @property
    def missing_right(self) -> str:
        """Why nothing is shown, without the rule that would mend it; usually empty."""
        refused = self._whole.refused
        if refused is None or self.namespaces:
            return ""
        return refused.missing_right.problem if refused.missing_right else str(refused)

    @property
    def missing_rule(self) -> str:
        """The smallest fix for the missing right."""
        return MissingRight("you", rule([self.kind], READ)).fix

    @property
    def stale_reason(self) -> str:
        """Why the objects may be out of date, in one sentence; usually empty."""
        return next((i.stale_reason for i in self.informers if i.stale_reason), "")

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self.informers)

    def divide(self, namespaces: Sequence[str], start: Callable[[str], Informer[T]]) -> None:
        """Watch these namespaces, each with its own informer."""
        self._parts = {name: start(name) for name in namespaces}

    def get(self, key: Key) -> T | None:
        return next((found for i in self.informers if (found := i.get(key)) is not None), None)

    def all(self) -> Collection[T]:
        """A live view; copy it before awaiting."""
        informers = self.informers
        if len(informers) == 1:
            return informers[0].all()
        return list(chain.from_iterable(informer.all() for informer in informers))

    def by(self, index: str, value: str) -> list[T]:
        return [item for informer in self.informers for item in informer.by(index, value)]


SYNC_SECONDS = 10.0
"""How long a page waits for the first list of a kind."""
PATIENCE_SECONDS = 0.1

_impatient_at: ContextVar[float | None] = ContextVar("impatient_at", default=None)
"""When the request of this task stops to wait, by the clock of the event loop."""


class StillLoading(MusterError):
    """The objects of a page are still on the way."""


def be_impatient() -> None:
    """The request of this task raises `StillLoading` instead of waiting for long."""
    _impatient_at.set(asyncio.get_running_loop().time() + PATIENCE_SECONDS)


async def first_list(informer: Informer[Any]) -> None:
    """Wait until the informer has its objects; raise the reason if it cannot get them."""
    if informer.has_synced:
        return
    start, impatient_at = asyncio.get_running_loop().time(), _impatient_at.get()
    deadline = start + SYNC_SECONDS
    if impatient_at is not None:
        deadline = min(deadline, impatient_at)
    try:
        async with asyncio.timeout_at(deadline):
            while not informer.has_synced:
                if informer.failure:
                    raise informer.failure.with_traceback(None)
                with suppress(TimeoutError):  # to look at the reason every now and then
                    await asyncio.wait_for(informer.synced(), 0.1)
    except TimeoutError:
        if impatient_at is not None:
            raise StillLoading(f"The cluster sends its {informer.kind.plural}.") from None
        raise Unreachable(
            f"The cluster has not sent its {informer.kind.plural} in {SYNC_SECONDS:g} s."
        ) from None


MAX_NAMESPACES = 20
"""Each has a watch per kind. A user with more of them has rights for all, or chooses one."""
_MAX_CANDIDATES = 500
_SHOWN = frozenset((kinds.PODS.plural, *(kind.plural for kind in JOB_KINDS), "*"))
_LIST = frozenset(("list", "*"))
_SERVICE_ACCOUNT = "system:serviceaccount:"
_RULES_REVIEWS: kinds.Kind[Raw] = kinds.Kind.of(
    "authorization.k8s.io/v1", "SelfSubjectRulesReview", dict, namespaced=False
)


async def readable_namespaces(client: Client, named: tuple[str, ...]) -> tuple[str, ...]:
    """The namespaces with something that the user may list; the first named if there is none."""
    own, listed = await asyncio.gather(_own_namespace(client), _all_namespaces(client))
    candidates = list(dict.fromkeys((*named, *own, *listed)))[:_MAX_CANDIDATES]
    allowed = await asyncio.gather(*(_may_list(client, name) for name in candidates))
    readable = [name for name, may in zip(candidates, allowed, strict=True) if may]
    return tuple(readable[:MAX_NAMESPACES]) or named[:1]


async def _own_namespace(client: Client) -> list[str]:
    """The namespace of a service account; empty for other users."""
    status = await _review(client, kinds.SELF_SUBJECT_REVIEWS, {})
    name = str(((status or {}).get("userInfo") or {}).get("username", ""))
    return [name.split(":")[2]] if name.startswith(_SERVICE_ACCOUNT) else []


async def _all_namespaces(client: Client) -> list[str]:
    try:
        listed = await client.list(kinds.NAMESPACES.read_as(dict))
    except ApiError:
        return []
    return [item["metadata"]["name"] for item in listed.items]


async def _may_list(client: Client, namespace: str) -> bool:
    status = await _review(client, _RULES_REVIEWS, {"spec": {"namespace": namespace}})
    if status is None or status.get("incomplete"):
        return True  # not known: the list itself tells
    return any(
        _LIST.intersection(rule.get("verbs") or ())
        and _SHOWN.intersection(rule.get("resources") or ())
        for rule in status.get("resourceRules") or ()
    )


async def _review(client: Client, kind: Kind[Raw], body: Raw) -> Raw | None:
    """The status of a review; None if the server does not answer this kind of question."""
    try:
        return mapping((await client.create(kind, body)).get("status"))
    except ApiError:
        return None
