"""Writes that the API server has acknowledged, and a check that all of them are there.

One thread creates, changes and deletes ConfigMaps during the faults. The outcome of a request that
failed is unknown, also later, because the server may still carry it out: its object is not written
again, and may have either value.
"""

from __future__ import annotations

import contextlib
from random import Random
from threading import Event

from kubekit.client.blocking_client import BlockingClient
from kubekit.errors import MusterError
from kubekit.objects.kinds import CONFIG_MAPS, NAMESPACES
from kubekit.objects.meta import Key
from kubekit.request_errors import AlreadyExists, NotFound
from tests.e2e.local_cluster import LocalCluster

NAMESPACE = "ledger"
OBJECTS = 150
PACE = 0.15


class Ledger:
    """`acknowledged` and `failed` count requests."""

    def __init__(self, local: LocalCluster, seed: int) -> None:
        self.acknowledged = self.failed = 0
        self._local = local
        self._random = Random(seed)
        self._possible: dict[str, set[str | None]] = {}
        """Object -> its possible values; None means that it does not exist."""
        self._names: list[str] = []

    def prepare(self) -> None:
        with self._local.client() as client, contextlib.suppress(AlreadyExists):
            client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})

    def write(self, stop: Event) -> None:
        """Write until `stop` is set."""
        while not stop.is_set():
            try:
                with self._local.client() as client:
                    while not stop.wait(PACE * self._random.uniform(0.2, 1.8)):
                        self._write_one(client)
            except (MusterError, OSError):
                self.failed += 1
                stop.wait(0.5)

    def _write_one(self, client: BlockingClient) -> None:
        while len(self._names) < OBJECTS:
            name = f"entry-{len(self._possible)}"
            self._names.append(name)
            self._possible[name] = {None}
        name = self._random.choice(self._names)
        (before,) = self._possible[name]
        value = None if self._random.random() < 0.2 else str(self.acknowledged + self.failed)
        key = Key(NAMESPACE, name)
        # Until the answer is here, and for ever if there is none, both values are possible.
        self._names.remove(name)
        self._possible[name] = {before, value}
        if value is None:
            with contextlib.suppress(NotFound):
                client.delete(CONFIG_MAPS, key)
        elif before is None:
            body = {"metadata": {"name": name}, "data": {"value": value}}
            client.create(CONFIG_MAPS, body, namespace=NAMESPACE)
        else:
            client.patch(CONFIG_MAPS, key, {"data": {"value": value}})
        self._possible[name] = {value}
        self._names.append(name)
        self.acknowledged += 1

    def differences(self) -> list[str]:
        """The objects whose value is not one that it may have; the writer must have stopped."""
        with self._local.client() as client:
            items = client.list(CONFIG_MAPS, NAMESPACE).items
        stored = {item.metadata.name: item.data["value"] for item in items if "value" in item.data}
        return [
            f"{name}: {stored.get(name)!r} instead of {possible}"
            for name, possible in self._possible.items()
            if stored.get(name) not in possible
        ]
