"""One job or pod in detail: as text, and as arena's JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kubekit.objects import enforced_limits
from muster.cli.show.messages import printable
from muster.cli.show.table import table, underlined_table
from muster.contract.job_explanation import JobExplanation, place_in_words
from muster.jobs import names
from muster.jobs.view.units import age, duration, gone_restarts, local_time, next_try

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Raw
    from muster.client.jobs.tensorboard_url import TensorBoard
    from muster.jobs.view.events import EventRow
    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary

INSTANCES = ("NAME", "STATUS", "AGE", "IS_CHIEF", "GPU(Requested)", "NODE")
RESTARTS = "RESTARTS"
"""The last column of the instances, if one of them has restarted: other tables are arena's."""
GPUS = ("INSTANCE", "NODE(IP)", "GPU(Requested)")
EVENTS = ("SOURCE", "TYPE", "AGE", "MESSAGE")


@dataclass(frozen=True)
class Extras:
    """The optional parts of a job's page."""

    line: str = ""
    """The job's place in the waiting line; empty unless it waits there."""
    tensorboard: TensorBoard | None = None
    events: Sequence[EventRow] | None = None
    gpus: bool = False
    gone_pods: Sequence[str] = ()
    """What is known of the pods of a finished job that has none any more."""
    unenforced_limits: Mapping[str, str] = field(default_factory=dict)
    """Why the cluster does not enforce the job's limit of a resource, by resource."""


NO_EXTRAS = Extras()


def header(job: JobSummary, now: datetime, extras: Extras = NO_EXTRAS) -> str:
    """Name, status and times of the job, and why it waits or failed."""
    # `list` has the address of the node alone and the table below the name alone, as in arena.
    node = _node(job.chief) if job.chief and job.chief.node_ip else ""
    reason = f"{job.headline}{next_try(job.next_try, now)}" if job.reason else ""
    limits = extras.unenforced_limits
    facts = [
        ("Name:", job.name),
        ("Status:", job.status),
        ("Namespace:", job.namespace),
        ("Priority:", job.priority or "N/A"),
        ("Trainer:", job.trainer.upper()),
        ("Duration:", duration(job.duration(now).total_seconds())),
        ("CreateTime:", local_time(job.created)),
        ("EndTime:", local_time(job.finished)),
    ]
    further = [
        ("Node:", node),
        ("Reason:", reason),
        ("Hint:", job.remedy),
        ("Line:", extras.line),
        ("Limits:", enforced_limits.in_words(limits) if limits else ""),
        ("Files:", job.discarded),
        ("Pods:", job.left_pods),
    ]
    return table([*facts, *(row for row in further if row[1])])


def _node(row: Instance) -> str:
    """The node of a pod by its name and its address."""
    return f"{row.node} ({row.node_ip})" if row.node and row.node_ip else row.node or "N/A"


def sections(job: JobSummary, now: datetime, extras: Extras = NO_EXTRAS) -> str:
    """The form with sections: a header, the instances, and the extras."""
    parts = [header(job, now, extras), *last_lines(job.last_lines), _instances(job, now, extras)]
    if extras.gpus:
        gpus = [(row.name, row.node_ip or "N/A", str(row.gpus)) for row in job.instances]
        share = f"{job.allocated_gpus}/{job.requested_gpus}"
        parts.append(f"GPUs:\n{underlined_table(GPUS, gpus, indent='  ')}")
        parts.append(f"  Allocated/Requested GPUs of Job: {share}")
    if extras.tensorboard:
        parts.append("\n  ".join(["Tensorboard:", *_tensorboard(extras.tensorboard)]))
    return _with_events(parts, extras.events, now)


def _instances(job: JobSummary, now: datetime, extras: Extras) -> str:
    if extras.gone_pods:
        return "\n  ".join(["Instances:", *extras.gone_pods])
    restarted = any(instance.restarts for instance in job.instances)
    rows = [
        (
            instance.name,
            instance.status,
            age(instance.created, now),
            str(instance.chief).lower(),
            str(instance.gpus),
            instance.node or "N/A",
            *([str(instance.restarts)] if restarted else ()),
        )
        for instance in job.instances
    ]
    columns = (*INSTANCES, RESTARTS) if restarted else INSTANCES
    shown = f"Instances:\n{underlined_table(columns, rows, indent='  ')}"
    counts = gone_restarts(job.gone_restarts)
    return f"{shown}\n  {counts}" if counts else shown


def gone_pods(logs_command: str, restarts: Mapping[str, int]) -> list[str]:
    """Sentences about pods that are gone; the command is empty if their logs are gone too."""
    logs = f"their logs stay: {logs_command}" if logs_command else "their logs too"
    counts = gone_restarts(restarts)
    return [f"Its pods are gone (cleaned up); {logs}", *([counts] if counts else ())]


def last_lines(lines: Sequence[str]) -> list[str]:
    """The section with the end of the log of the pod that failed; none without lines."""
    return ["\n  ".join(["Last lines:", *map(printable, lines)])] if lines else []


def _tensorboard(tensorboard: TensorBoard) -> list[str]:
    url, problem = tensorboard
    if not url:
        return [f"Its address is not known: {problem}"]
    lines = ["Your tensorboard will be available on:", url]
    return [*lines, f"It does not answer yet: {problem}"] if problem else lines


def _with_events(parts: list[str], events: Sequence[EventRow] | None, now: datetime) -> str:
    """The parts of a page, and the events as the last one if they were asked for."""
    if events:
        rows = [(row.source, row.type, age(row.at, now), row.message) for row in events]
        parts.append(f"Events:\n{underlined_table(EVENTS, rows, indent='  ')}")
    elif events is not None:
        parts.append("Events:\n  No events for resources")
    return "\n\n".join(parts)


def classic_table(job: JobSummary, now: datetime, extras: Extras = NO_EXTRAS) -> str:
    """The one-table form: a row per instance."""
    head = ("NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE")
    age_ = duration(job.age(now).total_seconds())
    rows = [
        (
            job.name,
            instance.phase.upper(),
            job.trainer.upper(),
            age_,
            instance.name,
            instance.node_ip if instance.phase == "Running" and instance.node_ip else "N/A",
        )
        for instance in job.instances
    ]
    parts = [table([head, *rows])]
    if extras.tensorboard:
        parts.append("\n".join(_tensorboard(extras.tensorboard)))
    return _with_events(parts, extras.events, now)


def pod_details(pod: Pod, row: Instance, now: datetime, events: Sequence[EventRow] | None) -> str:
    """One pod by itself."""
    facts = [
        ("Name:", row.name),
        ("Status:", row.status),
        ("Namespace:", pod.metadata.namespace),
        ("Job:", pod.metadata.labels.get(names.JOB) or "N/A"),
        ("Node:", _node(row)),
        ("IP:", row.ip or "N/A"),
        ("Age:", age(row.created, now)),
        ("Restarts:", str(row.restarts)),
        ("GPU(Requested):", str(row.gpus)),
    ]
    if row.reason:
        time = next_try(row.crash.next_try if row.crash else None, now)
        facts.append(("Reason:", f"{row.reason}{time}"))
    return _with_events([table(facts)], events, now)


def as_data(job: JobSummary, now: datetime, extras: Extras = NO_EXTRAS) -> Raw:
    """The job with the fields of arena's JSON in its order, and with the reason."""
    chief = job.chief
    data: Raw = {
        "uuid": job.uid,
        "name": job.name,
        "namespace": job.namespace,
        "duration": f"{int(job.duration(now).total_seconds())}s",
        "status": job.status,
        "reason": job.reason,
        "restarts": job.restarts,
        "nextTry": _unix(job.next_try),
        "lastLines": list(job.last_lines),
        "line": extras.line,
        "trainer": job.trainer,
        "tensorboard": extras.tensorboard.url if extras.tensorboard else "",
        "chiefName": chief.name if chief else "",
        "instances": [_instance_data(instance, now) for instance in job.instances],
        "priority": job.priority or "N/A",
        "requestGPUs": job.requested_gpus,
        "allocatedGPUs": job.allocated_gpus,
        "creationTimestamp": _unix(job.created),
    }
    if job.gone_restarts:
        data["goneRestarts"] = job.gone_restarts
    if extras.unenforced_limits:
        data["limitsNotEnforced"] = dict(extras.unenforced_limits)
    if extras.events is not None:
        data["events"] = [
            {"source": row.source, "type": row.type, "at": _unix(row.at), "message": row.message}
            for row in extras.events
        ]
    return data


def _instance_data(instance: Instance, now: datetime) -> Raw:
    seconds = f"{int((now - instance.created).total_seconds())}s" if instance.created else ""
    data: Raw = {
        "ip": instance.ip,
        "status": instance.status,
        "name": instance.name,
        "age": seconds,
        "node": instance.node,
        "nodeIP": instance.node_ip,
        "chief": instance.chief,
        "requestGPUs": instance.gpus,
        "creationTimestamp": _unix(instance.created),
        "reason": instance.reason,
        "restarts": instance.restarts,
    }
    if crash := instance.crash:
        data["crash"] = {
            "container": crash.container,
            "exitCode": crash.exit_code,
            "lastLine": crash.last_line,
            "nextTry": _unix(crash.next_try),
        }
    return data


def _unix(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0


def place_in_line(explanation: JobExplanation, now: datetime) -> str:
    """`2nd of 7 in line, for 3m`; empty if the job is not in line."""
    if not explanation.place:
        return ""
    waited = age(datetime.fromisoformat(explanation.since), now)
    return f"{place_in_words(explanation)}, for {waited}"
