"""The dashboard of a large cluster: first bytes, updates, memory, 50 clients at once.

    python -m benchmarks dashboard

The API server and the dashboard are one process with 1,000 nodes, 5,000 pods and 2,000 jobs
(`benchmarks.large_cluster`); the clients are this process. Limits are absolute: on a busy machine,
the processor time says more than the time to the first byte.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import psutil
import uvloop

from benchmarks.large_cluster import Dashboard, Size, fill, serving
from benchmarks.ratio import Ratio
from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from kubekit.client.request import Request
from kubekit.objects.meta import Key
from muster.contract.job_kinds import TFJOBS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGES = (
    "/",
    "/line",
    "/jobs",
    "/jobs?text=job-0042",
    "/jobs/team-0/TFJob/job-0000",
    "/models",
    "/submit",
    "/history",
)
FIRST_BYTE_MS, UPDATE_MS, MEMORY_MB, PAUSE_MS = 300.0, 1000.0, 100.0, 50.0
"""Allowed, on any machine."""
CLIENTS = 50
STARTS, ROUNDS = 3, 9
READERS = 10
JOB = Key("team-0", "job-0000")
TOPIC = f"job:{JOB}"


def run() -> list[Ratio]:
    with tempfile.TemporaryDirectory(prefix="muster-large-") as name:
        folder = Path(name)
        with serving(folder) as dashboard:
            uvloop.run(fill(dashboard.kubeconfig, Size()))
        first: list[tuple[float, float]] = []
        for _ in range(STARTS):
            with serving(folder) as dashboard:
                first.append(uvloop.run(_first_page(dashboard)))
        with serving(folder) as dashboard:
            rows = uvloop.run(_warm(dashboard))
    bytes_, pauses = zip(*first, strict=True)
    return [
        _row("first page after the login: first byte", bytes_, FIRST_BYTE_MS),
        _row("first page after the login: longest answer of the API", pauses, PAUSE_MS),
        *rows,
    ]


def _row(name: str, ours: tuple[float, ...] | list[float], limit: float, unit: str = "ms") -> Ratio:
    return Ratio(name, [(value, limit) for value in ours], unit, "<= 1.0")


# -- a start: nothing is in memory ---------------------------------------------------------------


async def _first_page(dashboard: Dashboard) -> tuple[float, float]:
    """Milliseconds to the first byte, and of the slowest request to the API meanwhile."""
    async with aiohttp.ClientSession() as anyone:
        # The libraries of the server are loaded now, as by `arena open` of the day before.
        await (await anyone.get(f"{dashboard.url}/healthz")).read()
    async with (
        Client.connect(kube_config.load(dashboard.kubeconfig)) as api,
        _browser(dashboard) as browser,
    ):
        answers: list[float] = []
        probing = asyncio.create_task(_probe(api, answers))
        first_byte = await _first_byte(browser, "/jobs")
        await _page(browser, "/jobs")
        probing.cancel()
    return first_byte, max(answers)


async def _probe(api: Client, milliseconds: list[float]) -> None:
    while True:
        start = time.perf_counter()
        await api.send(Request("GET", "/version"))
        milliseconds.append(1e3 * (time.perf_counter() - start))
        await asyncio.sleep(0.002)


# -- afterwards ----------------------------------------------------------------------------------


async def _warm(dashboard: Dashboard) -> list[Ratio]:
    process = psutil.Process(dashboard.pid)
    async with aiohttp.ClientSession() as anyone:
        await (await anyone.get(f"{dashboard.url}/healthz")).read()
    before = process.memory_info().rss
    async with _browser(dashboard) as browser:
        pages = [row for path in PAGES for row in await _rounds(browser, path, process)]
        answers = await _answers_meanwhile(dashboard, browser)
        updates = await _updates(dashboard, [browser])
    slowest, reached = await _together(dashboard)
    memory = (process.memory_info().rss - before) / 1e6
    return [
        *pages,
        _row(f"answers of the API while {READERS} readers load the map", answers, PAUSE_MS),
        _row("from the change of a job to the event in the stream", updates, UPDATE_MS),
        _row(
            f"{CLIENTS} clients open /jobs at once: the slowest first byte", slowest, FIRST_BYTE_MS
        ),
        _row(f"{CLIENTS} clients: from a change to the last stream's event", reached, UPDATE_MS),
        _row("memory beyond the API server's", [memory], MEMORY_MB, "MB"),
    ]


async def _rounds(
    browser: aiohttp.ClientSession, path: str, process: psutil.Process
) -> list[Ratio]:
    """A page that has been opened before; empty if there is no such page."""
    if not await _page(browser, path):
        return []
    times, processor_times = [], []
    for _ in range(ROUNDS):
        await asyncio.sleep(1.1)  # the text of a page is used again for a second
        before = _processor_time(process)
        times.append(await _first_byte(browser, path))
        processor_times.append(_processor_time(process) - before)
    return [
        _row(f"{path}: first byte", times, FIRST_BYTE_MS),
        _row(f"{path}: the server's processor time", processor_times, FIRST_BYTE_MS),
    ]


async def _answers_meanwhile(dashboard: Dashboard, browser: aiohttp.ClientSession) -> list[float]:
    """Milliseconds of requests to the API while readers load pages that nobody else loads."""
    numbers = itertools.count()

    async def load() -> None:
        for _ in range(ROUNDS):
            await _first_byte(browser, f"/?number={next(numbers)}")

    answers: list[float] = []
    async with Client.connect(kube_config.load(dashboard.kubeconfig)) as api:
        probing = asyncio.create_task(_probe(api, answers))
        await asyncio.gather(*(load() for _ in range(READERS)))
        probing.cancel()
    return answers


def _processor_time(process: psutil.Process) -> float:
    """Milliseconds of the whole process, in steps of ten."""
    times = process.cpu_times()
    return 1e3 * (times.user + times.system)


async def _together(dashboard: Dashboard) -> tuple[list[float], list[float]]:
    """The slowest first byte of 50 clients, and the time of a change to the last of them."""
    browsers = [_browser(dashboard) for _ in range(CLIENTS)]
    sessions = [await browser.__aenter__() for browser in browsers]
    try:
        times = await asyncio.gather(*(_first_byte(session, "/jobs") for session in sessions))
        return [max(times)], await _updates(dashboard, sessions)
    finally:
        for browser in browsers:
            await browser.__aexit__(None, None, None)


async def _updates(dashboard: Dashboard, browsers: list[aiohttp.ClientSession]) -> list[float]:
    """Milliseconds from a change of a job to its event in the streams of all browsers."""
    streams = await asyncio.gather(*map(_subscribed, browsers))
    times = []
    async with Client.connect(kube_config.load(dashboard.kubeconfig)) as api:
        for number in range(ROUNDS):
            await asyncio.sleep(0.7)  # events of a stream have half a second between them
            start = time.perf_counter()
            patch = {"metadata": {"annotations": {"benchmark": f"{start}-{number}"}}}
            await api.patch(TFJOBS, JOB, patch)
            await asyncio.gather(*(_event(stream, "changed") for stream in streams))
            times.append(1e3 * (time.perf_counter() - start))
    for stream in streams:
        stream.close()
    return times


async def _subscribed(browser: aiohttp.ClientSession) -> aiohttp.ClientResponse:
    csrf = (await _page(browser, "/jobs")).partition('data-csrf="')[2].partition('"')[0]
    stream = await browser.get("/stream")
    name = (await _event(stream, "hello"))["id"]
    headers = {"X-CSRF-Token": csrf, "Origin": str(browser._base_url).rstrip("/")}
    answer = await browser.post(f"/stream/{name}/topics", json={TOPIC: ""}, headers=headers)
    assert answer.status == 204, await answer.text()
    await _event(stream, "changed")  # the page had no version
    return stream


async def _event(stream: aiohttp.ClientResponse, name: str) -> dict[str, str]:
    """The data of the next event of that name."""
    current = ""
    async for line in stream.content:
        if line.startswith(b"event: "):
            current = line[7:].strip().decode()
        elif line.startswith(b"data: ") and current == name:
            data: dict[str, str] = json.loads(line[6:])
            return data
    raise AssertionError("the stream has ended")


@asynccontextmanager
async def _browser(dashboard: Dashboard) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that is logged in."""
    jar, headers = aiohttp.CookieJar(unsafe=True), {"Accept": "text/html"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        dashboard.url, cookie_jar=jar, headers=headers, timeout=timeout
    ) as session:
        async with session.get(dashboard.address().removeprefix(dashboard.url)) as answer:
            assert answer.status == 200, await answer.text()
        yield session


async def _first_byte(browser: aiohttp.ClientSession, path: str) -> float:
    start = time.perf_counter()
    async with browser.get(path) as answer:
        await answer.content.readany()
        first = 1e3 * (time.perf_counter() - start)
        await answer.read()
        assert answer.status == 200, path
    return first


async def _page(browser: aiohttp.ClientSession, path: str) -> str:
    """The text of a page, when its objects are there; empty if there is no such page."""
    async with browser.get(path) as answer:
        if answer.status == 404:
            return ""
        assert answer.status == 200, await answer.text()
        text = await answer.text()
    return await _page(browser, path) if "data-loading" in text else text
