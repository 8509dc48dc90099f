"""The tables of `arena top node` and `arena top job`, and the details of one node or job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.quantity import format_bytes
from muster.cli.show import job_details, job_table
from muster.cli.show.table import table, underlined_table, with_namespaces
from muster.jobs.view.units import UNKNOWN, cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.meta import Raw
    from muster.client.jobs.usage import Amount, JobUsage, NodeUsage
    from muster.jobs.view.instance import Instance

NODE_HEADER = (
    "NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)",
    "CPU(Used/Requested/Total)", "MEMORY(Used/Requested/Total)",
)  # fmt: skip
JOB_HEADER = (
    "NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE",
    "CPU(Used)", "MEMORY(Used)",
)  # fmt: skip
INSTANCES = ("NAME", "STATUS", "GPU(Request)", "NODE", "CPU(Used)", "MEMORY(Used)")


def nodes_table(nodes: Sequence[NodeUsage]) -> str:
    """The table, and under it the GPUs of the whole cluster."""
    rows = [
        (
            use.name, use.ip, use.role, use.status,
            str(use.total.gpus), str(use.allocated.gpus), _cpu(use), _memory(use),
        )
        for use in nodes
    ]  # fmt: skip
    text = table(_with_gpu_use([NODE_HEADER, *rows], [use.used for use in nodes]))
    allocated = sum(use.allocated.gpus for use in nodes)
    total = sum(use.total.gpus for use in nodes)
    if not total:
        return text
    share = f"{allocated}/{total} ({100 * allocated / total:.1f}%)"
    return f"{text}\n{'-' * 99}\nAllocated/Total GPUs In Cluster:\n{share}"


def node_details(nodes: Sequence[NodeUsage]) -> str:
    """Every node by itself, with its pods."""
    return "\n\n".join(map(_node_detail, nodes))


def _node_detail(use: NodeUsage) -> str:
    facts = [
        ("Name:", use.name),
        ("Status:", use.status),
        ("Role:", use.role),
        ("Address:", use.ip),
        ("CPU:", f"{_cpu(use)} (used/requested/total)"),
        ("Memory:", f"{_memory(use)} (used/requested/total)"),
        ("GPUs:", f"{use.allocated.gpus}/{use.total.gpus} (allocated/total)"),
    ]
    if use.used is not None and use.used.gpu_load is not None:
        load, gpu_memory = _format_gpu_use(use.used)
        facts.append(("GPU use:", f"{load} GPUs busy, {gpu_memory} of their memory"))
    head = ("NAMESPACE", "NAME", "STATUS", "GPU(Requested)", "CPU(Requested)", "MEMORY(Requested)")
    rows = [
        (
            row.namespace, row.name, row.status,
            str(row.requested.gpus), _format_cpu(row.requested), _format_memory(row.requested),
        )
        for row in use.instances
    ]  # fmt: skip
    return f"{table(facts)}\n\nInstances:\n{underlined_table(head, rows, indent='  ')}"


def _cpu(use: NodeUsage) -> str:
    return "/".join(map(_format_cpu, (use.used, use.allocated, use.total)))


def _memory(use: NodeUsage) -> str:
    return "/".join(map(_format_memory, (use.used, use.allocated, use.total)))


def jobs_table(jobs: Sequence[JobUsage], *, all_namespaces: bool) -> str:
    """The table, and under it the GPUs of the jobs that have not ended."""
    rows = _with_gpu_use([JOB_HEADER, *map(_job_row, jobs)], [use.sum for use in jobs])
    if all_namespaces:
        rows = with_namespaces(rows, (use.job.namespace for use in jobs))
    active = [use.job for use in jobs if not use.job.over]
    allocated = sum(job.allocated_gpus for job in active)
    requested = sum(job.requested_gpus for job in active)
    total = f"Total Allocated/Requested GPUs of Training Jobs: {allocated}/{requested}"
    return f"{table(rows)}\n\n{total}"


def _job_row(use: JobUsage) -> tuple[str, ...]:
    row = job_table.row(use.job, use.job.age(use.now))
    return (*row, _format_cpu(use.sum), _format_memory(use.sum))


def job_detail(use: JobUsage) -> str:
    """The header of `arena get`, then the usage of every instance."""
    used = [use.used.get(row.name) for row in use.job.instances]
    header, *rows = _with_gpu_use([INSTANCES, *map(_instance_row, use.job.instances, used)], used)
    share = f"{use.job.allocated_gpus}/{use.job.requested_gpus}"
    return (
        f"{job_details.header(use.job, use.now)}\n\nInstances:\n"
        f"{underlined_table(header, rows, indent='  ')}\n\n"
        f"GPUs:\n  Allocated/Requested GPUs of Job: {share}"
    )


def _instance_row(row: Instance, used: Amount | None) -> tuple[str, ...]:
    node = row.node_ip if row.phase != "Pending" and row.node_ip else "N/A"
    return (row.name, row.status, str(row.gpus), node, _format_cpu(used), _format_memory(used))


def _with_gpu_use(
    rows: Sequence[tuple[str, ...]], used: Sequence[Amount | None]
) -> list[tuple[str, ...]]:
    """The table with columns for the use of GPUs, if the cluster measures it."""
    if all(amount is None or amount.gpu_load is None for amount in used):
        return list(rows)
    columns = [("GPU(Used)", "GPU_MEMORY(Used)"), *map(_format_gpu_use, used)]
    return [(*row, *more) for row, more in zip(rows, columns, strict=True)]


def _format_gpu_use(amount: Amount | None) -> tuple[str, str]:
    if amount is None or amount.gpu_load is None or amount.gpu_memory is None:
        return UNKNOWN, UNKNOWN
    return cores(amount.gpu_load), format_bytes(amount.gpu_memory)


def _format_cpu(amount: Amount | None) -> str:
    return cores(amount.cpu) if amount is not None else UNKNOWN


def _format_memory(amount: Amount | None) -> str:
    return format_bytes(amount.memory) if amount is not None else UNKNOWN


def job_data(usage: JobUsage) -> Raw:
    """The job as `arena get` writes it to JSON, with the amounts used."""
    data = job_details.as_data(usage.job, usage.now)
    for row in data["instances"]:
        row["used"] = _amount_data(usage.used.get(row["name"]))
    return {**data, "used": _amount_data(usage.sum)}


def _amount_data(amount: Amount | None) -> Raw | None:
    if amount is None:
        return None
    data: Raw = {"cpu": f"{amount.cpu}m", "memory": amount.memory}
    if amount.gpu_load is not None:
        data |= {"gpu": f"{amount.gpu_load}m", "gpuMemory": amount.gpu_memory}
    return data
