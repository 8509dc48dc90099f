"""What a gang names and Muster does not serve: one table for events, `doctor`, `explain` and docs.

These fields have no effect, and whoever sets one is told so. A field that a gang requires is not
here: it makes the gang wait (`unserved` in `pod_groups`, `unserved_mark` in `gang_dialects`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from muster.contract.gang import MAX_SHOWN, PLAN_ANNOTATION
from muster.contract.gang_dialects import OPERATOR_LABEL
from muster.contract.scheduler_rights import NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import HasMetadata

EVENT = "NotServed"
"""The reason of the events."""
OF_POLICY = "schedulingPolicy."
"""What a field of a job's schedulingPolicy begins with."""
MAX_SHOWN_FIELDS = 8
"""Fields of one gang that are reported, at most."""


class Unserved(NamedTuple):
    """A field that one gang names, its value, and what holds instead."""

    field: str
    value: str
    instead: str

    def __str__(self) -> str:
        return f"{self.field} ({self.value}) has no effect: {self.instead}"


class Row(NamedTuple):
    """A field that is not served, what holds instead, and the values that change nothing."""

    name: str
    instead: str
    harmless: tuple[str, ...] = ()


class JobRow(NamedTuple):
    """A field of a job's schedulingPolicy."""

    row: Row
    dialects: tuple[str, ...]
    """Those in which the operator writes the field into the group."""
    read: bool = False
    """Whether Muster's scheduler reads what is written."""


NO_QUEUES = (
    "Muster has no queues; limit a namespace with a ResourceQuota, and order jobs by priorityClass"
)
NO_TIMEOUT = (
    "a gang waits until it fits, without room; to end a job that does not start, "
    "annotate it with muster.dev/starting-deadline-seconds"
)
BY_PRIORITY = "gangs start by priority and age"
BY_BUDGETS = "PodDisruptionBudgets and priorities say which pods may be evicted"
OWN_TOPOLOGY = "use the annotations muster.dev/topology and muster.dev/placement"
_QUEUE = Row("queue", NO_QUEUES, ("default",))
_TIMEOUT = Row("scheduleTimeoutSeconds", NO_TIMEOUT)

GROUP_FIELDS: Mapping[str, tuple[Row, ...]] = {"volcano": (_QUEUE,), "coscheduling": (_TIMEOUT,)}
"""Fields in the spec of a group, by dialect."""
MARKS: tuple[Row, ...] = (
    _QUEUE._replace(name="scheduling.volcano.sh/queue-name"),
    _QUEUE._replace(name="volcano.sh/queue-name"),
    Row("sla-waiting-time", BY_PRIORITY),
    Row("volcano.sh/sla-waiting-time", BY_PRIORITY),
    Row("volcano.sh/cooldown-time", BY_BUDGETS),
    Row("volcano.sh/jdb-max-unavailable", BY_BUDGETS),
    Row("volcano.sh/jdb-min-available", BY_BUDGETS),
    Row("volcano.sh/qos-level", BY_BUDGETS),
    Row("volcano.sh/revocable-zone", BY_BUDGETS),
    Row("volcano.sh/task-topology-affinity", OWN_TOPOLOGY),
    Row("volcano.sh/task-topology-anti-affinity", OWN_TOPOLOGY),
    Row("volcano.sh/task-topology-task-order", OWN_TOPOLOGY),
    # Under the other policies the gang waits.
    Row(
        "volcano.sh/numa-topology-policy",
        "the node chooses, by its own topology policy",
        ("none", "restricted", "single-numa-node"),
    ),
    Row("quota.scheduling.koordinator.sh/name", NO_QUEUES),
    Row("gang.scheduling.koordinator.sh/mode", "no member starts without the others", ("Strict",)),
    Row(
        "gang.scheduling.koordinator.sh/match-policy",
        "members that run and members that succeeded count",
        ("once-satisfied", "waiting-and-running"),
    ),
    Row("gang.scheduling.koordinator.sh/waiting-time", NO_TIMEOUT),
)
"""Annotations and labels of a group or of its pods."""
JOB_FIELDS = (
    JobRow(_QUEUE, ("volcano", "kube-batch")),
    JobRow(_TIMEOUT, ("coscheduling",)),
    JobRow(
        Row("minResources", "the gang needs what its pods request"),
        ("volcano", "coscheduling"),
        read=True,
    ),
)
_MARK = {row.name: row for row in MARKS}
_ATTRIBUTES = {"queue": "queue", "scheduleTimeoutSeconds": "schedule_timeout_seconds"}
"""The attributes of the structs that groups are read as."""


def of_gang(dialect: str, group: HasMetadata | None, pods: Collection[Pod]) -> list[Unserved]:
    """What a gang names in its group and its pods, each field and value once.

    What the operator has copied from a job's schedulingPolicy is told about the job (`of_job`).
    """
    found: dict[Unserved, None] = {}
    if group is not None:
        spec = getattr(group, "spec", None)
        for row in () if _is_copy(group, pods) else GROUP_FIELDS.get(dialect, ()):
            found |= dict.fromkeys(_named(row, getattr(spec, _ATTRIBUTES[row.name], None)))
        found |= dict.fromkeys(_marks(group))
    for pod in pods:
        found |= dict.fromkeys(_marks(pod))
        if len(found) >= MAX_SHOWN_FIELDS:  # whatever values thousands of pods have
            break
    return list(found)[:MAX_SHOWN_FIELDS]


def of_job(policy: Mapping[str, Any], dialect: str, schedulers: Iterable[str]) -> list[Unserved]:
    """What a job's schedulingPolicy names and no scheduler of its pods can serve.

    A dialect may have no place for a field. A field that is written may be served by another
    scheduler than Muster's.
    """
    ours = any(name in NAMES for name in schedulers)
    rows = (
        each.row for each in JOB_FIELDS if dialect not in each.dialects or (ours and not each.read)
    )
    named = (found for row in rows for found in _named(row, policy.get(row.name)))
    return [found._replace(field=f"{OF_POLICY}{found.field}") for found in named]


def told_once(rows: Iterable[Unserved]) -> list[Unserved]:
    """The rows without those that the operator has copied from the job into the group."""
    first: dict[tuple[str, str], Unserved] = {}
    for row in rows:
        first.setdefault((row.field.rpartition(".")[2], row.value), row)
    return list(first.values())


def _is_copy(group: HasMetadata, pods: Iterable[Pod]) -> bool:
    """Whether the operator wrote the group, and knows that Muster's scheduler has the pods."""
    is_of_job = OPERATOR_LABEL in group.metadata.labels
    return is_of_job and any(pod.spec.scheduler_name in NAMES for pod in pods)


def is_ours(pod: Pod) -> bool:
    """Whether Muster's scheduler places the pod, as far as the pod tells."""
    return pod.spec.scheduler_name in NAMES or PLAN_ANNOTATION in pod.metadata.annotations


def _marks(obj: HasMetadata) -> Iterator[Unserved]:
    annotations, labels = obj.metadata.annotations, obj.metadata.labels
    for name in sorted(_MARK.keys() & {*annotations, *labels}):
        yield from _named(_MARK[name], annotations.get(name) or labels.get(name))


def _named(row: Row, value: object) -> Iterator[Unserved]:
    """The field with this value, unless the value changes nothing."""
    text = "" if value in (None, {}, []) else str(value)
    if text and text not in row.harmless:
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        yield Unserved(row.name, shown, row.instead)
