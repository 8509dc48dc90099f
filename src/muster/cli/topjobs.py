"""Jobs as `arena top job` shows them: all in a table, or one with each of its instances."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.meta import Key
from muster.cli import describe, find
from muster.cli import list as listed
from muster.cli.output import table, underlined
from muster.cli.usage import POD_METRICS, Amount, cpu_of, measured, memory_of, summed
from muster.errors import UsageError
from muster.jobs.view import RUNNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Raw
    from muster.jobs.view import Instance, View
    from muster.kube.blocking import BlockingClient

HEADER = (
    "NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE",
    "CPU(Used)", "MEMORY(Used)",
)  # fmt: skip
INSTANCES = ("NAME", "STATUS", "GPU(Request)", "NODE", "CPU(Used)", "MEMORY(Used)")


@dataclass(frozen=True)
class JobUse:
    """A job, and what each of its pods uses as far as somebody measures."""

    job: View
    used: dict[str, Amount]
    now: datetime

    @property
    def sum(self) -> Amount | None:
        return summed(self.used.values()) if self.used else None

    def only(self, instance: str) -> JobUse:
        """The same with one instance alone; with all if none is named."""
        if not instance:
            return self
        kept = tuple(row for row in self.job.instances if row.name == instance)
        if not kept:
            raise UsageError(
                f"invalid instance name {instance} in job {self.job.name}",
                hint=f"`arena get {self.job.name}` lists its instances.",
            )
        used = {name: amount for name, amount in self.used.items() if name == instance}
        return JobUse(replace(self.job, instances=kept), used, self.now)

    def as_data(self) -> Raw:
        data = describe.as_data(self.job, self.now)
        for row in data["instances"]:
            row["used"] = _data(self.used.get(row["name"]))
        return {**data, "used": _data(self.sum)}


def _data(amount: Amount | None) -> Raw | None:
    return None if amount is None else {"cpu": f"{amount.cpu}m", "memory": amount.memory}


def uses(client: BlockingClient, namespace: str, type_: str) -> list[JobUse]:
    """Every job, those with most GPUs first."""
    jobs = find.everything(client, namespace, type_)
    used = measured(client, POD_METRICS, namespace) if jobs else {}
    now = datetime.now(UTC)
    return [
        JobUse(job, _own(job, used), now)
        for job in sorted(jobs, key=lambda job: -job.requested_gpus)
    ]


def use(client: BlockingClient, namespace: str, name: str, type_: str) -> JobUse:
    """One job."""
    job = find.one(client, Key(namespace, name), type_)
    return JobUse(job, _own(job, measured(client, POD_METRICS, namespace)), datetime.now(UTC))


def _own(job: View, used: dict[Key, Amount]) -> dict[str, Amount]:
    keys = (Key(job.namespace, row.name) for row in job.instances)
    return {key.name: used[key] for key in keys if key in used}


def summary(jobs: Sequence[JobUse], *, spaces: bool) -> str:
    """The table, and under it the GPUs of the jobs that run."""
    rows = [HEADER, *(_row(use) for use in jobs)]
    if spaces:
        rows = listed.with_spaces(rows, [use.job for use in jobs])
    running = [use.job for use in jobs if use.job.status == RUNNING]
    given, wanted = (
        sum(job.allocated_gpus for job in running),
        sum(job.requested_gpus for job in running),
    )
    return f"{table(rows)}\n\nTotal Allocated/Requested GPUs of Training Jobs: {given}/{wanted}"


def _row(use: JobUse) -> tuple[str, ...]:
    return (*listed.row(use.job, use.job.age(use.now)), cpu_of(use.sum), memory_of(use.sum))


def detail(use: JobUse) -> str:
    """The head of `arena get`, then what every instance uses."""
    rows = [_instance(row, use.used.get(row.name)) for row in use.job.instances]
    given = f"{use.job.allocated_gpus}/{use.job.requested_gpus}"
    return (
        f"{describe.header(use.job, use.now)}\n\nInstances:\n"
        f"{underlined(INSTANCES, rows, indent='  ')}\n\n"
        f"GPUs:\n  Allocated/Requested GPUs of Job: {given}"
    )


def _instance(row: Instance, used: Amount | None) -> tuple[str, ...]:
    node = row.node_ip if row.phase != "Pending" and row.node_ip else "N/A"
    return (row.name, row.status, str(row.gpus), node, cpu_of(used), memory_of(used))
