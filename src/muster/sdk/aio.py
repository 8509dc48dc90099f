"""The Python API for async programs: `from muster import aio`, then the same names with `await`.

Every coroutine runs the call of the same name in a thread; there is no second implementation. There
is no pool of a fixed size: a call that waits for hours must not keep another from starting.
Cancelling a task ends the watching, never the job: it aborts the connections of its call, so that
the thread ends too. A submission that was begun is completed.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from muster.sdk import calls, job as blocking, local_cluster as clusters
from muster.sdk.cluster_choice import Cancellation, cancelled_by, default_cluster
from muster.sdk.functions import run as functions
from muster.sdk.job import JobIdentity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from muster.client.home import Home
    from muster.sdk.local_cluster import LocalClusterSettings


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def _method(
    call: Callable[Concatenate[blocking.Job, P], T],
) -> Callable[Concatenate[Job, P], Coroutine[Any, Any, T]]:
    @wraps(call)
    async def method(self: Job, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(partial(call, self.blocking, *args, **kwargs))

    return method


def _method_of_self(
    call: Callable[Concatenate[blocking.Job, P], blocking.Job],
) -> Callable[Concatenate[Job, P], Coroutine[Any, Any, Job]]:
    @wraps(call)
    async def method(self: Job, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        await in_thread(partial(call, self.blocking, *args, **kwargs))
        return self

    return method


def _iterator(
    call: Callable[Concatenate[blocking.Job, P], Iterator[T]],
) -> Callable[Concatenate[Job, P], AsyncIterator[T]]:
    @wraps(call)
    def method(self: Job, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return iterate(partial(call, self.blocking, *args, **kwargs))

    return method


class Job(JobIdentity):
    """A job for async programs; `blocking` is the same job for other code."""

    def __init__(self, job: blocking.Job) -> None:
        super().__init__(*job._parts)
        self.blocking = job

    def __repr__(self) -> str:
        return repr(self.blocking)

    summary = _method(blocking.Job.summary)
    status = _method(blocking.Job.status)
    manifest = _method(blocking.Job.manifest)
    curves = _method(blocking.Job.curves)
    explain = _method(blocking.Job.explain)
    scale = _method(blocking.Job.scale)
    suspend = _method(blocking.Job.suspend)
    resume = _method(blocking.Job.resume)
    delete = _method(blocking.Job.delete)
    wait = _method_of_self(blocking.Job.wait)
    result = _method(blocking.Job.result)
    logs = _iterator(blocking.Job.logs)


def _awaited(call: Callable[P, T], answer: Callable[[T], R]) -> Callable[P, Coroutine[Any, Any, R]]:
    @wraps(call)
    async def function(*args: P.args, **kwargs: P.kwargs) -> R:
        return answer(await in_thread(partial(call, *args, **kwargs)))

    return function


def _jobs(jobs: list[blocking.Job]) -> list[Job]:
    return list(map(Job, jobs))


def _of_cluster(
    call: Callable[Concatenate[clusters.LocalCluster, P], T], answer: Callable[[T], R]
) -> Callable[Concatenate[LocalCluster, P], Coroutine[Any, Any, R]]:
    @wraps(call)
    async def method(self: LocalCluster, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return answer(await in_thread(partial(call, self.blocking, *args, **kwargs)))

    return method


submit = _awaited(calls.submit, Job)
run = _awaited(functions.run, Job)
get_job = _awaited(calls.get_job, Job)
list_jobs = _awaited(calls.list_jobs, _jobs)


class LocalCluster(clusters.ClusterAddress):
    """A local cluster for async programs; `blocking` is the same cluster for other code."""

    def __init__(self, cluster: clusters.LocalCluster) -> None:
        self.blocking = cluster

    @property
    def home(self) -> Home:
        """Where the cluster keeps its state."""
        return self.blocking.home

    def __repr__(self) -> str:
        return repr(self.blocking)

    submit = _of_cluster(clusters.LocalCluster.submit, Job)
    run = _of_cluster(clusters.LocalCluster.run, Job)
    get_job = _of_cluster(clusters.LocalCluster.get_job, Job)
    list_jobs = _of_cluster(clusters.LocalCluster.list_jobs, _jobs)

    @asynccontextmanager
    async def new_namespace(self) -> AsyncIterator[str]:
        """A namespace for an `async with` block, deleted afterwards with everything in it."""
        namespace = self.blocking.new_namespace()
        name = await in_thread(namespace.__enter__)
        try:
            yield name
        finally:
            await in_thread(partial(namespace.__exit__, None, None, None))


@asynccontextmanager
async def local_cluster(**settings: Unpack[LocalClusterSettings]) -> AsyncIterator[LocalCluster]:
    """`muster.local_cluster` without blocking the event loop."""
    cluster = await in_thread(clusters.LocalCluster(settings).start)
    try:
        with default_cluster(cluster.home):
            yield LocalCluster(cluster)
    finally:
        await in_thread(cluster.stop)


_AHEAD = 1000
"""Items that an iterator may be ahead of the task that reads them."""
_END = object()


async def in_thread(call: Callable[[], T], cancellation: Cancellation | None = None) -> T:
    """The result of the call. Cancelling the task ends the call's connections."""
    result = Future[T]()
    result.set_running_or_notify_cancel()
    cancellation = cancellation or Cancellation()

    def work() -> None:
        try:
            with cancelled_by(cancellation):
                result.set_result(call())
        except StopIteration as error:  # a coroutine cannot raise it: it would never return
            failure = RuntimeError("the call raised StopIteration")
            failure.__cause__ = error
            result.set_exception(failure)
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits
            result.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        return await asyncio.wrap_future(result)
    except asyncio.CancelledError:
        cancellation.cancel()
        raise


async def iterate(call: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """The items of the iterator that the call returns, as they come."""
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[object] = asyncio.Queue()
    room, cancellation = threading.Semaphore(_AHEAD), Cancellation()

    def produce() -> None:
        try:
            for item in call():
                room.acquire()
                if cancellation.cancelled:
                    return
                loop.call_soon_threadsafe(items.put_nowait, item)
        finally:
            with suppress(RuntimeError):  # the loop is closed: nobody reads
                loop.call_soon_threadsafe(items.put_nowait, _END)

    reading = asyncio.create_task(in_thread(produce, cancellation))  # owner: the iteration below
    try:
        while (item := await items.get()) is not _END:
            room.release()
            yield item  # type: ignore[misc] # all items but the end are of the iterator
        await reading
    finally:
        cancellation.cancel()
        room.release()  # a thread that waits for room sees that it was cancelled
        reading.cancel()
