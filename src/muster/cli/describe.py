"""One job as text and as data, for `arena get`, `list -o json` and whoever else shows a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.cli.output import age, duration, local_time, table, underlined

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.jobs.view import View

INSTANCES = ("NAME", "STATUS", "AGE", "IS_CHIEF", "GPU(Requested)", "NODE")


def sections(job: View, now: datetime) -> str:
    """The sectioned form: a header block, why it waits or failed, and the instances."""
    header = [
        ("Name:", job.name),
        ("Status:", job.status),
        ("Namespace:", job.namespace),
        ("Priority:", job.priority or "N/A"),
        ("Trainer:", job.trainer.upper()),
        ("Duration:", duration(job.duration(now).total_seconds())),
        ("CreateTime:", local_time(job.created)),
        ("EndTime:", local_time(job.finished)),
    ]
    if job.reason:
        header.append(("Reason:", job.reason))
    rows = [
        (
            instance.name,
            instance.status,
            age(instance.created, now),
            str(instance.chief).lower(),
            str(instance.gpus),
            instance.node or "N/A",
        )
        for instance in job.instances
    ]
    return f"{table(header)}\n\nInstances:\n{underlined(INSTANCES, rows, indent='  ')}"


def classic(job: View, now: datetime) -> str:
    """The one-table form: a row per instance."""
    head = ("NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE")
    old = duration(job.age(now).total_seconds())
    rows = [
        (
            job.name,
            instance.phase.upper(),
            job.trainer.upper(),
            old,
            instance.name,
            instance.node_ip if instance.phase == "Running" and instance.node_ip else "N/A",
        )
        for instance in job.instances
    ]
    return table([head, *rows])


def as_data(job: View, now: datetime) -> Raw:
    """The fields and their order as arena's JSON has them, and the reason besides."""
    chief = job.chief
    return {
        "uuid": job.uid,
        "name": job.name,
        "namespace": job.namespace,
        "duration": f"{int(job.duration(now).total_seconds())}s",
        "status": job.status,
        "reason": job.reason,
        "trainer": job.trainer,
        "tensorboard": "",
        "chiefName": chief.name if chief else "",
        "instances": [
            {
                "ip": instance.ip,
                "status": instance.status,
                "name": instance.name,
                "age": f"{int((now - instance.created).total_seconds())}s"
                if instance.created
                else "",
                "node": instance.node,
                "nodeIP": instance.node_ip,
                "chief": instance.chief,
                "requestGPUs": instance.gpus,
                "creationTimestamp": _unix(instance.created),
                "reason": instance.reason,
                "restarts": instance.restarts,
            }
            for instance in job.instances
        ],
        "priority": job.priority or "N/A",
        "requestGPUs": job.requested_gpus,
        "allocatedGPUs": job.allocated_gpus,
        "creationTimestamp": _unix(job.created),
    }


def _unix(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
