"""`/etc/hosts` of every pod: how pods find one another by pod and service names.

The table is computed purely; `keep` writes a pod's file in place, because the file is bound into
running containers and only the same inode is seen there. A service has no address of its own: its
name gives its pods' addresses, or the last known one of the pod called like it, so that a replica
that is being replaced keeps its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from muster.api.meta import Key
    from muster.local.node.services import Service
    from muster.local.node.spec import HostAlias, Pod

DOMAIN = "cluster.local"


class Entry(NamedTuple):
    """A name in a namespace, and an address it stands for."""

    namespace: str
    name: str
    address: str


def entries(
    pods: Iterable[Pod],
    services: Iterable[Service],
    address: Callable[[Pod], str],
    last: Callable[[Key], str],
) -> list[Entry]:
    """Every name there is, with its addresses, in a stable order.

    `address` is where a pod is or will be; `last` where a pod of that name was, if it is known.
    """
    present = [pod for pod in pods if not pod.finished]
    found: set[Entry] = set()
    labelled: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in present:
        meta = pod.metadata
        found.add(Entry(meta.namespace, meta.name, address(pod)))
        if pod.spec.hostname and pod.spec.subdomain:
            name = f"{pod.spec.hostname}.{pod.spec.subdomain}"
            found.add(Entry(meta.namespace, name, address(pod)))
        for key, value in meta.labels.items():
            labelled.setdefault((meta.namespace, key, value), []).append(pod)
    for service in services:
        meta = service.metadata
        chosen = [address(pod) for pod in _selected(service, labelled)] or [last(meta.key)]
        found |= {Entry(meta.namespace, meta.name, where) for where in chosen}
    return sorted(entry for entry in found if entry.address)


def _selected(service: Service, labelled: dict[tuple[str, str, str], list[Pod]]) -> list[Pod]:
    """The pods with all labels of the selector, looked for among those with the rarest one."""
    namespace, selector = service.metadata.namespace, service.spec.selector
    groups = [labelled.get((namespace, key, value), []) for key, value in selector.items()]
    rarest = min(groups, key=len, default=[])
    return [pod for pod in rarest if selector.items() <= pod.metadata.labels.items()]


def own(pod: Pod, address: str) -> Entry | None:
    """The pod's own host name, if it is not among the names that everybody knows it by."""
    host, subdomain = pod.hostname, pod.spec.subdomain
    if host == pod.metadata.name and not subdomain:
        return None
    full = f"{host}.{subdomain}.{pod.metadata.namespace}.svc.{DOMAIN} " if subdomain else ""
    return Entry(pod.metadata.namespace, f"{full}{host}", address)


def render(
    namespace: str,
    table: Iterable[Entry],
    aliases: Iterable[HostAlias] = (),
    gateway: str = "",
    own: Entry | None = None,
) -> str:
    """The file as a pod of that namespace sees it: short names are its own namespace's."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    if own is not None:
        lines.append(f"{own.address}\t{own.name}")
    if gateway:
        lines.append(f"{gateway}\t{_names('kubernetes', 'default', namespace)}")
    lines += [f"{alias.ip}\t{' '.join(alias.hostnames)}" for alias in aliases]
    lines += [
        f"{entry.address}\t{_names(entry.name, entry.namespace, namespace)}" for entry in table
    ]
    return "\n".join(lines) + "\n"


def _names(name: str, namespace: str, seen_from: str) -> str:
    full = f"{name}.{namespace}"
    names = [full, f"{full}.svc", f"{full}.svc.{DOMAIN}"]
    return " ".join([name, *names] if namespace == seen_from else names)


def keep(path: Path, text: str) -> None:
    """Make the file say this, without ever being another file."""
    data = text.encode()
    if not path.exists():
        path.write_bytes(data)
        return
    if path.read_bytes() != data:
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()
