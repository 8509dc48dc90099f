"""From changes of objects to the topics that open pages wait for.

Every change gets a number, and each topic remembers the number of its last change. A page carries
the number of the moment it was made, so a page that subscribes late still learns of a change in
between. A subscription collects the topics that changed; its reader takes them in batches, as often
as it likes. Nothing is queued per change.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_TOPICS = 20_000
"""Topics whose last change is remembered; more are forgotten together, and count as changed."""


class Subscription:
    """The topics that one stream waits for, and those of them that changed."""

    def __init__(self) -> None:
        self.wanted: frozenset[str] = frozenset()
        self.closed = False
        self._changed: set[str] = set()
        self._wake = asyncio.Event()

    def mark(self, topics: Iterable[str]) -> None:
        """Take note of those topics that are wanted."""
        changed = self.wanted.intersection(topics)
        if changed:
            self._changed |= changed
            self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self) -> list[str]:
        """Wait until topics changed, and take all of them; empty if the stream must end."""
        while not self._changed and not self.closed:
            self._wake.clear()
            await self._wake.wait()
        changed = sorted(self._changed & self.wanted)
        self._changed.clear()
        return changed


class Changes:
    """The changes of one cluster, as one user sees it."""

    def __init__(self) -> None:
        self._epoch = secrets.token_hex(4)
        self._number = self._forgotten = 0
        self._last: dict[str, int] = {}
        self._subscriptions: set[Subscription] = set()

    @property
    def version(self) -> str:
        """The present moment, as pages carry it."""
        return f"{self._epoch}.{self._number}"

    def publish(self, topics: Iterable[str]) -> None:
        self._number += 1
        topics = tuple(topics)
        if len(self._last) > MAX_TOPICS:
            self._last.clear()
            self._forgotten = self._number
        self._last.update(dict.fromkeys(topics, self._number))
        for subscription in self._subscriptions:
            subscription.mark(topics)

    @contextmanager
    def subscribed(self) -> Iterator[Subscription]:
        subscription = Subscription()
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def want(self, subscription: Subscription, topics: Mapping[str, str]) -> None:
        """Set the topics of a subscription, each with the version of the page that shows it."""
        subscription.wanted = frozenset(topics)
        subscription.mark([t for t, version in topics.items() if self._is_outdated(t, version)])

    def close(self) -> None:
        """End all streams."""
        for subscription in self._subscriptions:
            subscription.close()

    def _is_outdated(self, topic: str, version: str) -> bool:
        epoch, _, text = version.partition(".")
        number = read_integer(text, MAX_INT64)
        if epoch != self._epoch or number is None:
            return True  # of an earlier run of the server
        return self._last.get(topic, self._forgotten) > number
