"""`/etc/hosts` of every pod: how pods find one another by pod and service names.

The name of a service resolves to its virtual address; that of a headless service to its pods'
addresses. If it has no pod, it resolves to the last address of the pod with the same name, so that
the name of a replica still resolves while the replica is replaced. Files are written in place:
running containers have the inode mounted, and would not see a new file. Changes are batched: one
pass over the files serves a whole gang.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import describe
from kubekit.telemetry.unexpected_errors import RepeatedLine, isolated
from localkube.node.network.service_addresses import has_address
from localkube.node.pod import HostAlias, Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from kubekit.objects.core import Service
    from kubekit.objects.meta import Key
    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.node.runtime.container_runtime import Runtime


DOMAIN = "cluster.local"
_WRITE_AGAIN = 2.0
_not_written = RepeatedLine(logging.getLogger(__name__), logging.WARNING)


class HostsEntry(NamedTuple):
    """A name in a namespace, and an address it resolves to."""

    namespace: str
    name: str
    address: str


def hosts_entries(
    pods: Iterable[Pod],
    services: Iterable[Service],
    address: Callable[[Pod], str],
    last: Callable[[Key], str],
) -> list[HostsEntry]:
    """All names with their addresses, in a stable order.

    `address` gives the address that a pod has or will have; `last` the last address of a pod name.
    """
    # Pods by label: comparing every service with every pod would take too long for large jobs.
    entries = set[HostsEntry]()
    labelled: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        meta = pod.metadata
        with isolated("hosts files", meta.key):
            entries.add(HostsEntry(meta.namespace, meta.name, address(pod)))
            if pod.spec.hostname and pod.spec.subdomain:
                name = f"{pod.spec.hostname}.{pod.spec.subdomain}"
                entries.add(HostsEntry(meta.namespace, name, address(pod)))
            for key, value in meta.labels.items():
                labelled.setdefault((meta.namespace, key, value), []).append(pod)
    for service in services:
        meta = service.metadata
        with isolated("hosts files", meta.key):
            if has_address(service):
                entries.add(HostsEntry(meta.namespace, meta.name, service.spec.cluster_ip))
                continue
            targets = [address(pod) for pod in _selected(service, labelled)] or [last(meta.key)]
            entries |= {HostsEntry(meta.namespace, meta.name, target) for target in targets}
    return sorted(entry for entry in entries if entry.address)


def _selected(service: Service, labelled: dict[tuple[str, str, str], list[Pod]]) -> list[Pod]:
    """The pods that match the selector; only the pods with its rarest label are compared."""
    namespace, selector = service.metadata.namespace, service.spec.selector
    groups = [labelled.get((namespace, key, value), []) for key, value in selector.items()]
    rarest = min(groups, key=len, default=[])
    return [pod for pod in rarest if selector.items() <= pod.metadata.labels.items()]


def own_entry(pod: Pod, address: str) -> HostsEntry | None:
    """The entry for the pod's own host name, if the table of all names does not have it."""
    host, subdomain = pod.hostname, pod.spec.subdomain
    if host == pod.metadata.name and not subdomain:
        return None
    full = f"{host}.{subdomain}.{pod.metadata.namespace}.svc.{DOMAIN} " if subdomain else ""
    return HostsEntry(pod.metadata.namespace, f"{full}{host}", address)


def render_hosts_file(
    namespace: str,
    table: Iterable[HostsEntry],
    aliases: Iterable[HostAlias] = (),
    own: HostsEntry | None = None,
) -> str:
    """The file for a pod of this namespace, in which short names resolve."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    if own is not None:
        lines.append(f"{own.address}\t{own.name}")
    lines += [f"{alias.ip}\t{' '.join(alias.hostnames)}" for alias in aliases]
    lines += [
        f"{entry.address}\t{_names(entry.name, entry.namespace, namespace)}" for entry in table
    ]
    return "\n".join(lines) + "\n"


def _names(name: str, namespace: str, pod_namespace: str) -> str:
    full = f"{name}.{namespace}"
    names = [full, f"{full}.svc", f"{full}.svc.{DOMAIN}"]
    return " ".join([name, *names] if namespace == pod_namespace else names)


def write_in_place(path: Path, text: str) -> None:
    """Set the content of the file and keep its inode."""
    data = text.encode()
    # Overwritten before it is truncated: a reader in between must not find the file empty.
    if not path.exists():
        path.write_bytes(data)
        path.chmod(0o644)  # programs of any user in the pod read it
        return
    if path.read_bytes() != data:
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()


@dataclass
class HostsFiles:
    """Also gives pods their addresses, as soon as they are bound to one of our nodes."""

    _runtime: Runtime
    _nodes: Collection[str]
    _pods: Informer[Pod]
    _services: Informer[Service]
    _pods_dir: Path
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _table: list[HostsEntry] | None = field(default=None, init=False)
    _named: set[str] = field(default_factory=set, init=False)
    """The uids of the pods in the table."""

    def __post_init__(self) -> None:
        self._pods.subscribe(self._on_change)
        self._services.subscribe(self._on_change)

    async def run(self) -> None:
        await self._pods.synced()
        await self._services.synced()
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._entries()
            try:
                await self._runtime.network.save_addresses()
            except OSError as error:
                self._try_again("addresses of pods", error)
            for pod in self._on_our_nodes():
                with isolated("hosts files", pod.metadata.key):
                    self._update(pod)
                await asyncio.sleep(0)  # a thousand files must not hold up the event loop

    def _update(self, pod: Pod) -> None:
        try:
            if self._file(pod).exists():
                self.write(pod)
        except FileNotFoundError:
            pass  # the pod is gone
        except OSError as error:
            self._try_again(f"hosts file of {pod.metadata.key}", error)

    def _try_again(self, what: str, error: OSError) -> None:
        """A full disk, or no descriptor is left."""
        _not_written.log("%s: %s", what, describe(error))
        asyncio.get_running_loop().call_later(_WRITE_AGAIN, self._changed.set)

    def write(self, pod: Pod) -> None:
        """Bring one pod's file up to date."""
        address = self._address(pod)
        if address and pod.metadata.uid not in self._named:  # it had to wait for its address
            self._table = None
            self._changed.set()
        write_in_place(
            self._file(pod),
            render_hosts_file(
                pod.metadata.namespace,
                self._entries(),
                pod.spec.host_aliases,
                own_entry(pod, address),
            ),
        )

    def _entries(self) -> Iterable[HostsEntry]:
        if self._table is None:
            pods = self._on_our_nodes()
            self._runtime.assign_addresses(
                pod.metadata.key for pod in pods if not pod.spec.host_network
            )
            self._named = set()
            self._table = hosts_entries(
                pods,
                self._services.all(),
                self._address_in_table,
                self._runtime.network.last_address,
            )
        return self._table

    def _on_our_nodes(self) -> list[Pod]:
        """The pods that run here or will run here. Others have no address: there may be far more
        of them than addresses."""
        return [pod for pod in self._pods.all() if self._is_ours(pod)]

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.node_name in self._nodes and not pod.finished

    def _address(self, pod: Pod) -> str:
        if pod.spec.host_network:
            return self._runtime.network.gateway
        return self._runtime.network.address(pod.metadata.key)

    def _address_in_table(self, pod: Pod) -> str:
        address = self._address(pod)
        if address:
            self._named.add(pod.metadata.uid)
        return address

    def _file(self, pod: Pod) -> Path:
        return self._pods_dir / pod.metadata.uid / "hosts"

    def _on_change(self, change: Change[Pod] | Change[Service]) -> None:
        if self._relevant(change.old) != self._relevant(change.new):
            self._table = None
            self._changed.set()

    def _relevant(self, item: Pod | Service | None) -> tuple[object, ...] | None:
        """The fields that names and addresses depend on; None if no name depends on the object."""
        if isinstance(item, Pod):
            return (item.metadata.uid, item.metadata.labels) if self._is_ours(item) else None
        return None if item is None else (item.spec.selector, item.spec.cluster_ip, item.spec.type)
