"""The resources that a job uses, sampled while somebody looks, and remembered for some minutes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import MusterError, NotFound, ServerError
from muster.client.jobs.usage import POD_METRICS, amount_used
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from kubekit.client.client import Client
    from kubekit.objects.meta import Key
    from muster.client.jobs.usage import Amount


INTERVAL = 5.0
MAX_SAMPLES = 720
MAX_JOBS = 100


class UsageHistory:
    """The samples of all jobs that somebody looks at, or looked at last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._samples: dict[Key, deque[UsageSample]] = {}
        self._lock = asyncio.Lock()

    async def follow(self, job: Key) -> AsyncGenerator[list[UsageSample], None]:
        """All samples so far, then each new one."""
        samples, last = self._of(job), 0.0
        while True:
            async with self._lock:  # one sample serves all readers
                if not samples or time.time() - samples[-1].at >= INTERVAL:
                    samples.append(await self._sample(job))
            yield [sample for sample in samples if sample.at > last]
            last = samples[-1].at
            await asyncio.sleep(max(0.1, last + INTERVAL - time.time()))

    def _of(self, job: Key) -> deque[UsageSample]:
        samples = self._samples.pop(job, None) or deque(maxlen=MAX_SAMPLES)
        self._samples[job] = samples  # the last one: the job that nobody looked at longest is first
        if len(self._samples) > MAX_JOBS:
            del self._samples[next(iter(self._samples))]
        return samples

    async def _sample(self, job: Key) -> UsageSample:
        labels = f"{names.JOB}={job.name}"
        try:
            rows = (await self._client.list(POD_METRICS, job.namespace, labels=labels)).items
        except (NotFound, ServerError):
            raise MusterError("Nothing is measured: this cluster has no metrics server.") from None
        used = {row.metadata.name: _used(amount_used(row)) for row in rows}
        return usage_sample(time.time(), used)


def _used(amount: Amount) -> Used:
    return Used(
        cpu=amount.cpu / 1000,
        memory=float(amount.memory),
        gpu=None if amount.gpu_load is None else amount.gpu_load / 1000,
        gpu_memory=None if amount.gpu_memory is None else float(amount.gpu_memory),
    )


MAX_CURVES = 8
"""More pods than this are shown by their lowest, mean and highest values."""


class Used(msgspec.Struct, frozen=True):
    """By one pod; None is not measured."""

    cpu: float | None = None
    """Cores."""
    memory: float | None = None
    """Bytes."""
    gpu: float | None = None
    """Busy GPUs."""
    gpu_memory: float | None = None


class UsageSample(msgspec.Struct, frozen=True):
    at: float
    """Seconds since 1970."""
    values: dict[str, dict[str, float]]
    """By resource, then by curve."""


def usage_sample(at: float, used: Mapping[str, Used]) -> UsageSample:
    values = {}
    for resource in Used.__struct_fields__:
        amounts = {pod: getattr(row, resource) for pod, row in sorted(used.items())}
        known = {pod: amount for pod, amount in amounts.items() if amount is not None}
        if known:
            values[resource] = known if len(used) <= MAX_CURVES else _spread(list(known.values()))
    return UsageSample(at, values)


def _spread(amounts: list[float]) -> dict[str, float]:
    mean = sum(amounts) / len(amounts)
    return {"highest": max(amounts), "mean": mean, "lowest": min(amounts)}
