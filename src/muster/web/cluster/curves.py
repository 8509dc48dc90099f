"""Curves of a job: the resources that it uses, and the scalars of its TensorBoard.

Usage is sampled while somebody looks, and remembered for some minutes. Scalars are read through
`pods/proxy` with the rights of the user. The TensorBoard is a pod, so its answers are bounded in
size and time. Readers share an answer for some seconds.
"""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import msgspec

from kubekit.client.request import Request, object_path
from kubekit.errors import MusterError
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound, ServerError
from muster.client.jobs.usage import POD_METRICS, Amount, amount_used
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod


INTERVAL = 5.0
MAX_SAMPLES = 720
MAX_JOBS = 100
MAX_CURVES = 8
"""More pods than this are shown by their lowest, mean and highest values."""
FRESH_SECONDS = 4.0
MAX_BYTES = 4 << 20
TIMEOUT = 10.0
MAX_TENSORBOARDS = 50
_AT_ONCE = 4
_GZIP = b"\x1f\x8b"
_RESOURCES = ("cpu", "memory", "gpu", "gpu_memory")
MAX_SERIES = 32
MAX_POINTS = 5000
Number = float | int | str | None
"""TensorBoard writes NaN and the infinities as text."""


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


def _used(amount: Amount) -> dict[str, float]:
    """Cores, bytes and busy GPUs, without what is not measured."""
    used = {"cpu": amount.cpu / 1000, "memory": float(amount.memory)}
    if amount.gpu_load is not None:
        used["gpu"] = amount.gpu_load / 1000
    if amount.gpu_memory is not None:
        used["gpu_memory"] = float(amount.gpu_memory)
    return used


class UsageSample(msgspec.Struct, frozen=True):
    at: float
    """Seconds since 1970."""
    values: dict[str, dict[str, float]]
    """By resource, then by curve."""


def usage_sample(at: float, used: Mapping[str, Mapping[str, float]]) -> UsageSample:
    """The sample of pods, each with the amounts that it uses."""
    values = {}
    for resource in _RESOURCES:
        known = {pod: row[resource] for pod, row in sorted(used.items()) if resource in row}
        if known:
            values[resource] = known if len(used) <= MAX_CURVES else _spread(list(known.values()))
    return UsageSample(at, values)


def _spread(amounts: list[float]) -> dict[str, float]:
    mean = sum(amounts) / len(amounts)
    return {"highest": max(amounts), "mean": mean, "lowest": min(amounts)}


class _Answer(NamedTuple):
    at: float
    charts: asyncio.Task[list[Chart]]


def tensorboard_pods(job: Key, pods: Iterable[Pod]) -> list[Pod]:
    """The pods of the job's TensorBoard; they belong to a Deployment, so only labels tell."""
    labels = {**names.TENSORBOARD_LABEL, "release": job.name}
    return [
        pod
        for pod in pods
        if pod.metadata.namespace == job.namespace and labels.items() <= pod.metadata.labels.items()
    ]


class TensorBoards:
    """The TensorBoards of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: dict[Key, _Answer] = {}

    async def charts(self, pod: Key) -> list[Chart]:
        """All scalars of a TensorBoard."""
        answer = self._answers.get(pod)
        if answer is None or time.monotonic() - answer.at > FRESH_SECONDS:
            if len(self._answers) >= MAX_TENSORBOARDS:
                self._answers = {k: a for k, a in self._answers.items() if not a.charts.done()}
            task = asyncio.create_task(self._read(pod))  # owner: `close` ends it
            task.add_done_callback(lambda t: t.cancelled() or t.exception())  # its reader may leave
            answer = self._answers[pod] = _Answer(time.monotonic(), task)
        return await asyncio.shield(answer.charts)  # another reader may wait for it too

    def close(self) -> None:
        for answer in self._answers.values():
            answer.charts.cancel()

    async def _read(self, pod: Key) -> list[Chart]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def points_of(tag: str, run: str) -> dict[float, float | None]:
            async with limit:
                query = (("tag", tag), ("run", run))
                return points(await self._get(pod, "scalars", query))

        try:
            rows = series(await self._get(pod, "tags"))
            results = await asyncio.gather(*(points_of(*row) for row in rows))
        except (msgspec.MsgspecError, RecursionError):  # deeply nested JSON
            raise MusterError("The TensorBoard gives answers that make no sense.") from None
        except ServerError:
            raise MusterError("The TensorBoard does not answer yet.") from None
        return charts(dict(zip(rows, results, strict=True)))

    async def _get(self, pod: Key, name: str, query: tuple[tuple[str, str], ...] = ()) -> bytes:
        target = Key(pod.namespace, f"{pod.name}:{names.TENSORBOARD_PORT}")
        path = f"{object_path(PODS, target, 'proxy')}/data/plugin/scalars/{quote(name)}"
        body = bytearray()
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                self._client.transport.stream(Request("GET", path, query, accept="*/*")) as chunks,
            ):
                async for chunk in chunks:
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise MusterError("The answer of the TensorBoard is too large.")
        except TimeoutError:
            raise MusterError(f"The TensorBoard has not answered in {TIMEOUT:g} s.") from None
        return _plain(bytes(body))


def _plain(body: bytes) -> bytes:
    """The body; a proxy on the way may have asked for a compressed one."""
    if not body.startswith(_GZIP):
        return body
    try:
        # Bounded: a small body may become a large one.
        return zlib.decompressobj(wbits=31).decompress(body, MAX_BYTES)
    except zlib.error:
        return body


class Chart(msgspec.Struct, frozen=True):
    """One tag: its values in each run, over all steps."""

    tag: str
    runs: list[str]
    steps: list[float]
    values: list[list[float | None]]


def series(body: bytes) -> list[tuple[str, str]]:
    """Tag and run of each series in TensorBoard's list of tags; losses first."""
    tags = msgspec.json.decode(body, type=dict[str, dict[str, object]])
    rows = [(tag, run) for run, by_tag in tags.items() for tag in by_tag]
    return sorted(rows, key=lambda row: ("loss" not in row[0].lower(), *row))[:MAX_SERIES]


def points(body: bytes) -> dict[float, float | None]:
    """Value by step, from TensorBoard's rows of time, step and value; None is a gap."""
    rows = msgspec.json.decode(body, type=list[tuple[Number, Number, Number]])
    pairs = ((_number(step), _number(value)) for _, step, value in rows[:MAX_POINTS])
    return {step: value for step, value in pairs if step is not None}


def _number(value: Number) -> float | None:
    number = float(value) if isinstance(value, int | float) else math.nan
    return number if math.isfinite(number) else None


def charts(by_series: Mapping[tuple[str, str], Mapping[float, float | None]]) -> list[Chart]:
    """One chart per tag."""
    tags = dict.fromkeys(tag for tag, _ in by_series)
    return [_chart(tag, {r: p for (t, r), p in by_series.items() if t == tag}) for tag in tags]


def _chart(tag: str, runs: Mapping[str, Mapping[float, float | None]]) -> Chart:
    steps = sorted({step for values in runs.values() for step in values})
    return Chart(
        tag, list(runs), steps, [[values.get(step) for step in steps] for values in runs.values()]
    )
