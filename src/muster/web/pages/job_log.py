"""The logs of a job: the feed `log:NAMESPACE/KIND/NAME/REPLICA/ATTEMPT/READER`, and the download.

READER is a random word of the tab: a tab that opens a log which another tab follows needs its
earlier lines too.
"""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from kubekit.errors import MusterError
from kubekit.objects.annotation_values import read_integer
from kubekit.request_errors import ApiError, NotFound
from muster.jobs.job_state import SUSPENDED
from muster.web.cluster.live_cluster import LiveCluster, compute
from muster.web.cluster.log_reader import LogChoice, LogChunk, LogReader
from muster.web.context import attachment, cluster_of
from muster.web.pages.job import JobPath
from muster.web.views.log_text import LineReader, LogLine, prefixed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator


LINES = 4000
"""Lines from before the reader came."""
INTERVAL = 0.1
"""Seconds between two messages: many lines are one message."""


async def follow(cluster: LiveCluster, argument: str) -> AsyncIterator[Any]:
    """Messages {"first": true}, {"lines": [[pod, text, whole], …]} …, {"end": true}."""
    parts = argument.split("/")
    path, (replica, attempt) = JobPath.of_parts(*parts), (*parts[3:5], "", "")[:2]
    job = await cluster.job(path.kind, path.key)
    choice = LogChoice(*path, replica, _attempt(attempt), follow=True, lines=LINES)
    yield {"first": True}
    choices = [choice]
    if (await compute(partial(cluster.summary, job, datetime.now(UTC)))).status == SUSPENDED:
        # Its pods are gone, and there is nothing to follow until it is resumed.
        choices.insert(0, choice._replace(follow=False))
    for each in choices:
        async with aclosing(_messages(cluster, each)) as messages:
            async for message in messages:
                yield message
    yield {"end": True}


async def _messages(cluster: LiveCluster, choice: LogChoice) -> AsyncGenerator[Any, None]:
    readers: dict[str, LineReader] = {}
    try:
        async with aclosing(LogReader(cluster.connect, choice).batches(INTERVAL)) as batches:
            async for chunks in batches:
                if lines := [line for chunk in chunks for line in _lines(chunk, readers)]:
                    yield {"lines": lines}
    except MusterError:
        if choice.follow:  # else only the local cluster keeps logs of pods that are gone
            raise


def _lines(chunk: LogChunk, readers: dict[str, LineReader]) -> list[LogLine]:
    if not chunk.pod:
        return [LogLine("", chunk.data.decode(errors="replace"))]
    return readers.setdefault(chunk.pod, LineReader(chunk.pod)).feed(chunk.data)


async def download(request: web.Request) -> web.StreamResponse:
    """GET …/log: the whole log as a file; of several replicas, each line with its pod."""
    cluster, path, query = cluster_of(request), JobPath.of(request), request.query
    await cluster.job(path.kind, path.key)
    choice = LogChoice(*path, query.get("replica", ""), _attempt(query.get("attempt", "")))
    async with aclosing(LogReader(cluster.connect, choice).batches()) as batches:
        # The first batch before the response begins: an error is a page, not half a file.
        try:
            batch = await anext(batches, None)
        except ApiError:
            raise
        except MusterError as error:
            raise NotFound(str(error), hint=error.hint, status=404) from None
        answer = web.StreamResponse(headers=attachment(f"{choice.replica or path.key.name}.log"))
        answer.content_type, answer.charset = "text/plain", "utf-8"
        await answer.prepare(request)
        at_start: dict[str, bool] = {}
        while batch is not None:
            if data := b"".join(_file_part(chunk, choice, at_start) for chunk in batch):
                await answer.write(data)
            batch = await anext(batches, None)
    await answer.write_eof()
    return answer


def _file_part(chunk: LogChunk, choice: LogChoice, at_start: dict[str, bool]) -> bytes:
    pod, data = chunk
    if choice.replica or not pod:
        return data if pod else b""  # a sentence about the log is not part of it
    fresh = at_start.get(pod, True)
    at_start[pod] = data.endswith(b"\n") or not data
    if not data:
        return b"" if fresh else b"\n"
    return prefixed(data, f"{pod} | ".encode(), fresh=fresh)


def _attempt(text: str) -> int:
    return -1 if text == "previous" else read_integer(text) or 0
