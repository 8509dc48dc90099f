"""Informers: the objects of one kind, held in memory: listed once, then watched from there on.

A broken watch resumes from the last resource version it saw. When the server no longer has that
history (410 Gone), the informer lists again, and listeners are called only for the differences. So
listeners see every change once, in the order of the server, before the next one is visible in the
cache. A kind that is not installed counts as empty, and is looked for until it appears.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Generic, TypeVar

from kubekit.client import discovery
from kubekit.client.retry import Backoff
from kubekit.errors import MusterError
from kubekit.request_errors import ApiError, Forbidden, Gone, NotFound, Unauthorized, is_temporary
from kubekit.telemetry import unexpected_errors
from kubekit.watch.informer_cache import Change, InformerCache, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kubekit.client.client import Client
    from kubekit.client.watch_stream import WatchEvent
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Key

T = TypeVar("T")
log = logging.getLogger(__name__)

PAGE = 5000
"""Objects per page: large enough that most lists are one response from the server's cache."""
UNREACHABLE_BACKOFF = Backoff(first=0.1, cap=5.0)
FORBIDDEN_BACKOFF = Backoff(first=0.1, cap=30.0)
"""Longer than for an unreachable server, because permissions change by hand."""


class WatchProgress:
    """Where one list and watch stands: the version seen so far, and the failures in a row.

    The version follows every event and bookmark. It is dropped, which means a new list, when the
    server no longer has the history, and after any other error that resuming would not repair.
    """

    def __init__(self, random: Callable[[], float] = random.random) -> None:
        self.version = ""
        self._random = random
        self._failures = 0

    @property
    def must_list(self) -> bool:
        return not self.version

    def listed(self, version: str) -> None:
        self.version = version

    def saw(self, version: str) -> None:
        if version:
            self.version = version
        self._failures = 0

    def ended(self, lasted: float) -> float:
        """The pause after the server closed the watch."""
        # A server ends a good watch after minutes. A watch that ends at once would make a loop
        # without a pause.
        if lasted >= 1.0:
            self._failures = 0
            return 0.0
        return self._pause(UNREACHABLE_BACKOFF)

    def failed(self, error: MusterError) -> float:
        """The pause after an error; also drops the version if it is of no use any more."""
        if not is_temporary(error):
            self.version = ""
        if isinstance(error, Forbidden | Unauthorized):
            return self._pause(FORBIDDEN_BACKOFF)
        pause = self._pause(UNREACHABLE_BACKOFF)
        if isinstance(error, Gone | NotFound) or not isinstance(error, ApiError):
            return pause
        return max(pause, error.retry_after or 0.0)

    def _pause(self, backoff: Backoff) -> float:
        self._failures += 1
        return backoff._replace(random=self._random).delay(self._failures)


class Informer(Generic[T]):
    """The objects of one kind: all, or only those of a namespace or a selector.

    With `optional`, a kind that this process may not list from the start counts as not installed:
    the start does not wait for it, and it is listed as soon as the right is granted.
    """

    def __init__(  # noqa: PLR0913 - which objects, by three filters, and how to hold them
        self,
        client: Client,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        optional: bool = False,
        page: int = PAGE,
    ) -> None:
        self.kind = kind
        self.refused: Forbidden | None = None
        """Why an optional informer may not list its objects."""
        self._optional = optional
        self.installed = True
        """Whether the server has the kind, as far as known."""
        self.failure: MusterError | None = None
        """Why the cache may be out of date; usually None."""
        self._client, self._namespace = client, namespace
        self._labels, self._fields, self._page = labels, fields, page
        self._cache: InformerCache[T] = InformerCache(indexes or {})
        self._listeners: list[Callable[[Change[T]], None]] = []
        self._synced = asyncio.Event()
        self._progress = WatchProgress()

    def get(self, key: Key) -> T | None:
        return self._cache.get(key)

    def all(self) -> Collection[T]:
        """A live view; copy it before awaiting."""
        return self._cache.all()

    def by(self, index: str, value: str) -> list[T]:
        return self._cache.by(index, value)

    def subscribe(self, listener: Callable[[Change[T]], None]) -> None:
        """Call `listener` with every later change. It must neither block nor raise; if it raises,
        the other listeners hear of the change all the same."""
        self._listeners.append(listener)

    @property
    def stale_reason(self) -> str:
        """Why the cache may be out of date, in one sentence; usually empty."""
        return str(self.failure) if self.failure else ""

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete (a kind that is not installed counts as empty)."""
        return self._synced.is_set()

    async def synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                pause = await self._follow()
            except MusterError as error:
                pause = self._failed(error)
            await asyncio.sleep(pause)

    async def _follow(self) -> float:
        """One round: a list if one is needed, then one watch until it ends."""
        if self._progress.must_list:
            await self._list()
        loop = asyncio.get_running_loop()
        started = loop.time()
        stream = self._client.watch(
            self.kind,
            self._namespace,
            since=self._progress.version,
            labels=self._labels,
            fields=self._fields,
        )
        async with aclosing(stream) as events:
            async for event in events:
                self._apply(event)
        return self._progress.ended(loop.time() - started)

    async def _list(self) -> None:
        result = await self._client.list(
            self.kind, self._namespace, labels=self._labels, fields=self._fields, page=self._page
        )
        for unreadable in result.unreadable:
            log.warning("%s: cannot be read and is ignored: %s", self.kind.resource, unreadable)
        self.installed = True
        self._recovered()
        self._progress.listed(result.resource_version)
        self._notify(self._cache.replace(result.items))
        self._synced.set()

    def _apply(self, event: WatchEvent[T]) -> None:
        if self.failure:
            self._recovered()
        identity = identity_of(event.object)
        if event.type == "UNREADABLE":
            log.warning("%s: cannot be read and is ignored: %s", self.kind.resource, identity.key)
        self._notify(self._cache.apply(event))
        self._progress.saw(identity.version)

    def _notify(self, changes: list[Change[T]]) -> None:
        where = f"watch of {self.kind.plural}"
        for change in changes:
            key = identity_of(change.current).key
            for listener in self._listeners:
                with unexpected_errors.isolated(where, key):
                    listener(change)

    def _recovered(self) -> None:
        if self.failure:
            log.info("%s: watching again", self.kind.resource)
        self.failure = self.refused = None

    def _failed(self, error: MusterError) -> float:
        pause = self._progress.failed(error)
        if isinstance(error, NotFound):
            if self.installed:
                log.info("%s; waiting until it has", error)
            self.installed = False
            self._recovered()
            self._notify(self._cache.replace(()))  # with its CRD, all objects of a kind are deleted
            self._synced.set()
        elif (
            # Only one that we could not list from the start counts as not installed.
            isinstance(error, Forbidden)
            and self._optional
            and (self.refused is not None or not self.has_synced)
        ):
            if self.refused is None:
                log.warning("%s; continuing without it", error)
            self.refused = error
            self.installed = False
            self._synced.set()
        elif not isinstance(error, Gone) and str(error) != self.stale_reason:
            self.failure = error
            log.warning("cannot list or watch %s: %s", self.kind.resource, error)
        return pause


class AnyVersionInformer(Informer[T]):
    """An informer of a kind in any version that the server serves.

    A kind that is not stable yet moves from version to version with Kubernetes' releases. `kind` is
    the kind in the version that is watched now. When the server does not have it, at the start or
    after an upgrade, discovery names another version of the same resource.
    """

    async def _follow(self) -> float:
        try:
            return await super()._follow()
        except NotFound:
            served = await discovery.find_served_version(self._client, self.kind)
            if served is None or served == self.kind:
                raise
        self.kind = served
        self._progress.listed("")  # list again: the objects may have changed with their version
        return await super()._follow()
