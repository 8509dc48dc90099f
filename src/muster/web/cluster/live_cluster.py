"""One cluster as one user sees it: informers that start when a page first needs them.

A page asks for the sources it shows: `pods = await cluster.informer(PODS)`. The informer is started
once, stays until the cluster is dropped, and publishes every change as topics. Errors of the first
list are raised, in the API's own sentence; later errors leave the objects as they were and appear
as `problem` on every page.

Each user has their own cluster, by their credentials. It is in use while a request or a stream
of its user is open, and for some minutes after. Then its informers end and its objects are freed:
an idle dashboard costs nothing.

`arena up` runs the dashboard, the API server and the node in one process, with one event loop. The
loop's default threads belong to the API server and the node. If calls of the dashboard waited in
them, they could occupy the very threads that the API server needs to answer these calls. So the
dashboard has its own: one computes, a few wait for the API. Views and templates are computation,
and only one thread of a Python process computes at a time. A second one would make no page faster,
but the event loop would wait longer for each of its turns.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.client.request import Request
from kubekit.errors import MusterError, nearest
from kubekit.objects.kinds import POD_LOGS
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.request_errors import Forbidden, NotFound, TooManyRequests, Unauthorized
from kubekit.rights import READ, MissingRight, rule as rule_of
from kubekit.telemetry import metrics
from kubekit.watch.informer import AnyVersionInformer, Informer
from muster.contract.job_kinds import JOB_KINDS
from muster.jobs.view.summary import JobSummary, summarize
from muster.web.cluster.curves import TensorBoards, UsageHistory
from muster.web.cluster.subscriptions import Changes
from muster.web.cluster.watched_objects import (
    BY_JOB,
    FIRST,
    JOBS,
    PODS,
    Objects,
    Source,
    first_list,
    readable_namespaces,
)
from muster.web.views import NOT_SHOWN, guarded
from muster.web.views.owner_colours import Looks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.transport.connection_pool import Connector
    from kubekit.objects.core import Pod
    from kubekit.watch.informer_cache import Change
    from muster.web.access.request_facts import Identity


log = logging.getLogger(__name__)
T = TypeVar("T")

_PAGE = 250
"""Objects per response of a list: others, and the API server of this process, get their turn."""
_USER_AGENT = "muster-dashboard"
KEPT_SECONDS = 1.0
"""How long the text of a page may be used again."""
IDLE_SECONDS = 300.0
MAX_CLUSTERS, MAX_OF_ONE_USER = 64, 8
_LIVE = metrics.gauge("web_clusters", "Sets of informers that the dashboard holds, one per user")
_DROPPED = metrics.counter("web_idle_drops_total", "Sets of informers that nobody used any more")
_COMPUTING = ThreadPoolExecutor(1, "dashboard-page")
_WAITING = ThreadPoolExecutor(16, "dashboard-call")


async def compute(work: Callable[[], T]) -> T:
    """The result of a long computation, in a thread: the event loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(_COMPUTING, work)


class JobWithPods(NamedTuple):
    """A job as the server has it, and the pods with its label."""

    raw: Raw
    pods: Sequence[Pod]


class LiveCluster:
    """The live objects of one cluster, with the credentials of one user."""

    def __init__(
        self,
        endpoint: Endpoint,
        connector: Connector | None = None,
        namespaces: tuple[str, ...] = (),
    ) -> None:
        """The user has named `namespaces`, in case it may not list all."""
        self.changes = Changes()
        self.client = Client.connect(endpoint, user_agent=_USER_AGENT, connector=connector)
        self._endpoint, self._named = endpoint, namespaces
        self._closed = False
        self._objects: dict[Source[Any], Objects[Any]] = {}
        self._namespaces: asyncio.Task[tuple[str, ...]] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._summaries = JobSummaries()
        self._jobs: list[JobWithPods] = []
        self._jobs_version = ""
        self._is_local: bool | None = None
        self.pages = PageCache()
        self._looks = Looks()
        self.awaited: set[str] = set()
        """Addresses of pages whose readers already see that objects are on the way."""
        self.tensorboards = TensorBoards(self.client)
        self.usage = UsageHistory(self.client)

    @property
    def problem(self) -> str:
        """Why the objects may be out of date, in one sentence; usually empty."""
        return next((o.stale_reason for o in self._objects.values() if o.stale_reason), "")

    @property
    def hidden(self) -> str:
        """The kinds that pages leave out because the user may not list them."""
        hidden = {o.kind.plural for o in self._objects.values() if o.missing_right}
        return ", ".join(sorted(hidden))

    @property
    def scope(self) -> str:
        """The namespaces that pages show, if the user may not list objects of all of them."""
        return ", ".join(sorted({name for o in self._objects.values() for name in o.namespaces}))

    @property
    def loading(self) -> str:
        """The kinds whose first list is still on the way."""
        return ", ".join(sorted(o.kind.plural for o in self._objects.values() if not o.has_synced))

    async def start(self) -> None:
        """Get the objects of the first pages that a reader opens."""
        jobs, *_ = await asyncio.gather(self.jobs(), *map(self.optional_informer, FIRST))
        await compute(partial(self.summaries, jobs, datetime.now(UTC)))

    async def informer(self, source: Source[T]) -> Objects[T]:
        """The objects of a source. Forbidden if the user may not list them."""
        informer = await self.optional_informer(source)
        if informer.missing_right:
            raise Forbidden(informer.missing_right, status=403, hint=informer.missing_rule)
        return informer

    async def optional_informer(self, source: Source[T]) -> Objects[T]:
        """The objects of a source; none if the user may not list them, and every page says so."""
        if self._closed:  # by the sign-out of a user whose request still runs
            raise Unauthorized("This browser is not signed in to the dashboard.", status=401)
        objects = self._objects.get(source)
        if objects is None:
            objects = self._objects[source] = Objects(self._start(source, source.namespace))
        await _first_lists(objects)
        if objects.missing_right and source.kind.namespaced and not source.namespace:
            namespaces = await self._readable_namespaces()
            if not objects.is_divided:
                objects.divide(namespaces, partial(self._start, source))
            await _first_lists(objects)
        return objects

    async def jobs(self) -> list[JobWithPods]:
        """The jobs of every kind that the user may list, with their pods."""
        pods, informers = await asyncio.gather(
            self.optional_informer(PODS),
            asyncio.gather(*map(self.optional_informer, JOBS.values())),
        )
        missing = [i for i in informers if i.missing_right]
        if len(missing) == len(informers):
            rule = MissingRight("you", rule_of(JOB_KINDS, READ)).fix
            raise Forbidden(missing[0].missing_right, status=403, hint=rule)
        if self._jobs_version != self.changes.version:
            self._jobs_version = self.changes.version
            self._jobs = [
                JobWithPods(raw, pods.by(BY_JOB, str(key_of(raw))))
                for informer in informers
                for raw in informer.all()
            ]
        return self._jobs

    async def job(self, kind: str, key: Key) -> JobWithPods:
        """One job; if there is none, NotFound has the nearest name as its hint."""
        pods = await self.optional_informer(PODS)
        if kind in JOBS and (raw := (await self.informer(JOBS[kind])).get(key)):
            return JobWithPods(raw, pods.by(BY_JOB, str(key)))
        names = [key_of(job.raw).name for job in await self.jobs()]
        similar = nearest(key.name, names)
        raise NotFound(
            f"There is no {kind} named {key.name} in namespace {key.namespace}.",
            hint=f"Did you mean {similar}?" if similar else "",
        )

    def summaries(self, jobs: Sequence[JobWithPods], now: datetime) -> list[JobSummary]:
        """All jobs as a person sees them; for a thread. Unchanged jobs come from a cache, which
        forgets those that are not among `jobs`."""
        return self._summaries.of(jobs, now)

    def summary(self, job: JobWithPods, now: datetime) -> JobSummary:
        """One job as a person sees it; for a thread."""
        return self._summaries.of_one(job, now)

    def looks(self, pods: Iterable[Pod]) -> Looks:
        """How jobs are drawn; for a thread. A job keeps its look while it has pods."""
        self._looks = looks = self._looks.with_pods(pods)
        return looks

    async def call(self, operation: Callable[[BlockingClient], T]) -> T:
        """Run an operation of `muster.client`, as a command would, in a thread."""

        def run() -> T:
            with self.connect() as client:
                return operation(client)

        return await asyncio.get_running_loop().run_in_executor(_WAITING, run)

    def connect(self) -> BlockingClient:
        """A client for a thread."""
        return BlockingClient(self._endpoint, user_agent=_USER_AGENT)

    async def is_local(self) -> bool:
        """Whether it runs on this machine: it keeps the logs of attempts, and ports of nodes answer
        on loopback."""
        if self._is_local is None:
            try:
                await self.client.send(Request("GET", f"/apis/{POD_LOGS.group}"))
                self._is_local = True
            except (NotFound, Forbidden):
                self._is_local = False
        return self._is_local

    async def close(self) -> None:
        self._closed = True
        self.changes.close()
        self.tensorboards.close()
        for task in self._tasks:
            task.cancel()
        if self._namespaces is not None:
            self._namespaces.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    async def _readable_namespaces(self) -> tuple[str, ...]:
        if self._namespaces is None:
            search = readable_namespaces(self.client, (*self._named, self._endpoint.namespace))
            self._namespaces = asyncio.create_task(search)  # owner: `close` ends it
        return await asyncio.shield(self._namespaces)  # others wait for it too

    def _start(self, source: Source[T], namespace: str) -> Informer[T]:
        informer = AnyVersionInformer(
            self.client,
            source.kind,
            namespace,
            labels=source.labels,
            fields=source.fields,
            indexes={BY_JOB: source.index} if source.index else None,
            optional=True,
            page=_PAGE,
        )

        def publish(change: Change[T]) -> None:
            if informer.has_synced:  # no page has been made of the objects before
                self.changes.publish(source.topics_of(change.old, change.new))

        informer.subscribe(publish)
        self._tasks.append(asyncio.create_task(informer.run()))  # owner: `close` ends it
        return informer


async def _first_lists(objects: Objects[Any]) -> None:
    await asyncio.gather(*map(first_list, objects.informers))


class PageCache:
    """Texts of pages that were made a moment ago, or are being made.

    After a change, every open tab fetches the same part of a page. The text depends on its address,
    on the live objects, whose version is known, and on the clock, which shows in ages: so it may be
    used again for a second. One user's pages are never shown to another: each has a cache.
    """

    def __init__(self) -> None:
        self._texts: dict[Hashable, asyncio.Task[str]] = {}

    async def text(self, key: Hashable, make: Callable[[], str]) -> str:
        """The text of that key; `make` runs in a thread if nobody has made it yet."""
        task = self._texts.get(key)
        if task is None:
            task = asyncio.ensure_future(compute(make))  # owner: ends with its page
            self._texts[key] = task
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._texts.pop, key, None)
        return await asyncio.shield(task)  # others may wait for it when this reader leaves


class _Row(NamedTuple):
    versions: tuple[str, ...]
    summary: JobSummary


class JobSummaries:
    """The last summaries of all jobs, of which only those that changed are made anew.

    Reading a manifest takes a tenth of a millisecond; with thousands of jobs, that is most of the
    time of a page. A summary depends on the job and its pods, so their resource versions are its
    key. Threads may use it at once: the second finds the work of the first.
    """

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._lock = Lock()

    def of(self, jobs: Iterable[JobWithPods], now: datetime) -> list[JobSummary]:
        """The summaries of all jobs; others are forgotten."""
        with self._lock:
            self._rows = {_uid(job): self._row(job, now) for job in jobs}
            return [row.summary for row in self._rows.values()]

    def of_one(self, job: JobWithPods, now: datetime) -> JobSummary:
        with self._lock:
            row = self._rows[_uid(job)] = self._row(job, now)
            return row.summary

    def _row(self, job: JobWithPods, now: datetime) -> _Row:
        version = str(job.raw["metadata"].get("resourceVersion"))
        versions = (version, *(pod.metadata.resource_version for pod in job.pods))
        row = self._rows.get(_uid(job))
        # A job that no operator has seen yet gets its reason from the clock.
        unseen = not (job.pods or job.raw.get("status"))
        if row is None or row.versions != versions or unseen:
            row = _Row(versions, _summary(job, now))
        return row


def _uid(job: JobWithPods) -> str:
    return str(job.raw["metadata"].get("uid"))


def _summary(job: JobWithPods, now: datetime) -> JobSummary:
    metadata = job.raw["metadata"]

    def bare() -> JobSummary:
        kept = ("name", "namespace", "uid")
        known = {name: metadata[name] for name in kept if name in metadata}
        summary = summarize({"kind": job.raw.get("kind"), "metadata": known}, ())
        return msgspec.structs.replace(summary, reason=NOT_SHOWN)

    return guarded(lambda: summarize(job.raw, job.pods, now), bare, metadata.get("name"))


class _Entry:
    def __init__(self, cluster: LiveCluster, owner: str) -> None:
        self.cluster, self.owner = cluster, owner
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None


class LiveClusters:
    """All live clusters of a server."""

    def __init__(
        self, idle_seconds: float = IDLE_SECONDS, connector: Connector | None = None
    ) -> None:
        self._idle_seconds, self._connector = idle_seconds, connector
        self._entries: dict[str, _Entry] = {}
        self._starts: set[asyncio.Task[None]] = set()
        self._drops: set[asyncio.Task[None]] = set()

    @contextmanager
    def use(self, identity: Identity) -> Iterator[LiveCluster]:
        """The cluster with a user's credentials, kept at least while the block runs."""
        user = identity.user
        entry = self._entries.get(user)
        if entry is None:
            self._make_room_of(identity.owner)
            if len(self._entries) >= MAX_CLUSTERS:
                raise TooManyRequests("Too many users look at this dashboard.", status=429)
            cluster = LiveCluster(identity.endpoint, self._connector, identity.namespaces)
            entry = self._entries[user] = _Entry(cluster, identity.owner)
            _LIVE.set(len(self._entries))
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        entry.users += 1
        try:
            yield entry.cluster
        finally:
            entry.users -= 1
            if not entry.users and self._entries.get(user) is entry:
                loop = asyncio.get_running_loop()
                entry.timer = loop.call_later(self._idle_seconds, self._drop, user)

    def _make_room_of(self, owner: str) -> None:
        """Let one user not occupy the clusters of all: a new token replaces one not in use."""
        own = {key: entry for key, entry in self._entries.items() if owner and entry.owner == owner}
        if len(own) < MAX_OF_ONE_USER:
            return
        idle = next((key for key, entry in own.items() if not entry.users), None)
        if idle is None:
            message = f"You look at this dashboard with {MAX_OF_ONE_USER} tokens at the same time."
            raise TooManyRequests(message, status=429, hint="Close the pages of one of them.")
        self.end(idle)

    def start(self, identity: Identity) -> None:
        """Get the objects of the first pages while the browser is on its way to one of them."""
        if identity.user not in self._entries:  # else they are here, or on their way
            _run(self._start(identity), self._starts)

    async def _start(self, identity: Identity) -> None:
        with suppress(MusterError), self.use(identity) as cluster:  # the page shows the error
            await cluster.start()

    def end(self, user: str) -> None:
        """Close the cluster of a user who has signed out, or whose token is no longer valid."""
        if entry := self._entries.get(user):
            if entry.timer is not None:
                entry.timer.cancel()
            self._close_entry(user)

    def _drop(self, user: str) -> None:
        _DROPPED.inc()
        log.info("dashboard: nobody looks; the watches end")
        self._close_entry(user)

    def _close_entry(self, user: str) -> None:
        entry = self._entries.pop(user)
        _LIVE.set(len(self._entries))
        _run(entry.cluster.close(), self._drops)

    def end_streams(self) -> None:
        """End all streams, so that the server can stop."""
        for entry in self._entries.values():
            entry.cluster.changes.close()

    async def close(self) -> None:
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        entries, self._entries = list(self._entries.values()), {}
        _LIVE.set(0)
        for entry in entries:
            if entry.timer is not None:
                entry.timer.cancel()
            await entry.cluster.close()
        await asyncio.gather(*self._drops)


def _run(work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work)  # owner: `LiveClusters.close` awaits it
    tasks.add(task)
    task.add_done_callback(tasks.discard)
