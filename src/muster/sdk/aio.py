"""The Python API for async programs: `from muster import aio`, then the same names with `await`.

Every coroutine runs the call of the same name in a thread; there is no second implementation.
Cancelling a task ends the watching, never the job. A submission that was begun is completed.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from muster.sdk import calls
from muster.sdk import job as blocking
from muster.sdk import local_cluster as clusters
from muster.sdk.cluster_choice import default_cluster
from muster.sdk.functions import run as functions
from muster.sdk.job_identity import JobIdentity
from muster.sdk.threads import iterate
from muster.sdk.threads import run as in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path
    from typing import Unpack

    from muster.client.home import Home
    from muster.sdk.local_cluster import LocalClusterSettings

P = ParamSpec("P")
T = TypeVar("T")


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


def _returning_job(call: Callable[P, blocking.Job]) -> Callable[P, Coroutine[Any, Any, Job]]:
    @wraps(call)
    async def function(*args: P.args, **kwargs: P.kwargs) -> Job:
        return Job(await in_thread(partial(call, *args, **kwargs)))

    return function


def _returning_jobs(
    call: Callable[P, list[blocking.Job]],
) -> Callable[P, Coroutine[Any, Any, list[Job]]]:
    @wraps(call)
    async def function(*args: P.args, **kwargs: P.kwargs) -> list[Job]:
        return [Job(job) for job in await in_thread(partial(call, *args, **kwargs))]

    return function


def _job_of_cluster(
    call: Callable[Concatenate[clusters.LocalCluster, P], blocking.Job],
) -> Callable[Concatenate[LocalCluster, P], Coroutine[Any, Any, Job]]:
    @wraps(call)
    async def method(self: LocalCluster, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        return Job(await in_thread(partial(call, self.blocking, *args, **kwargs)))

    return method


submit = _returning_job(calls.submit)
run = _returning_job(functions.run)
get_job = _returning_job(calls.get_job)
list_jobs = _returning_jobs(calls.list_jobs)


class LocalCluster:
    """A local cluster for async programs; `blocking` is the same cluster for other code."""

    def __init__(self, cluster: clusters.LocalCluster) -> None:
        self.blocking = cluster

    @property
    def home(self) -> Home:
        """Where the cluster keeps its state."""
        return self.blocking.home

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig for kubectl and for the clients of other languages."""
        return self.blocking.kubeconfig

    @property
    def url(self) -> str:
        """The address of the Kubernetes API."""
        return self.blocking.url

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which commands (arena, kubectl) use this cluster."""
        return self.blocking.environment

    def __repr__(self) -> str:
        return repr(self.blocking)

    submit = _job_of_cluster(clusters.LocalCluster.submit)
    run = _job_of_cluster(clusters.LocalCluster.run)
    get_job = _job_of_cluster(clusters.LocalCluster.get_job)

    async def list_jobs(
        self, type: str = "", *, namespace: str = "", labels: str = ""
    ) -> list[Job]:
        """`muster.aio.list_jobs` on this cluster."""
        call = partial(self.blocking.list_jobs, type, namespace=namespace, labels=labels)
        return [Job(job) for job in await in_thread(call)]

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
