"""The steps that build a root directory from its tree of paths.

`standalone/linux/mounts.py` carries them out.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from localkube.node.runtime.rootfs.path_tree import PathKind

if TYPE_CHECKING:
    from localkube.node.runtime.rootfs.path_tree import HostTree, PathNode
    from localkube.node.standalone.linux.mounts import Step

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_PREFIXES = ("nvidia", "dri", "infiniband", "kfd")


def steps_of(root: PathNode, tree: HostTree) -> list[Step]:
    """The steps for the paths below a root, in order."""
    writer = _StepWriter(tree)
    writer.rebuild(root)
    return writer.steps


class _StepWriter:
    def __init__(self, host: HostTree) -> None:
        self._host = host
        self.steps: list[Step] = []

    def rebuild(self, node: PathNode, *, entries: bool = True) -> None:
        """Fill a new directory: the host's entries, then the entries that differ."""
        for name in self._host.entries(node.path) if entries else ():
            path = posixpath.join(node.path, name)
            if name in node.children:
                continue
            if self._host.kind(path) == "link":
                self.steps.append(["link", path, self._host.target(path)])
            else:
                self.steps.append(["host", path])
        for child in node.children.values():
            self._place(child, in_ours=True, shown=entries)

    def _place(self, node: PathNode, *, in_ours: bool, shown: bool) -> None:
        """Add one node to its parent: a new directory (`in_ours`), or a mounted one of the host.

        `shown` says whether the parent shows the host's entries.
        """
        match node.kind:
            case None:
                self._pass_through(node, in_ours=in_ours, shown=shown)
            case PathKind.OWN:
                self._own(node)
            case PathKind.HIDE if not node.children:
                if not in_ours and self._host.kind(node.source or node.path) == "dir":
                    self.steps.append(["hide", node.path])
            case PathKind.BIND if self._is_the_hosts(node) and node.children:
                self._pass_through(node, in_ours=in_ours, shown=True)
            case PathKind.BIND:
                sub = [node.sub] if node.sub else []
                self.steps.append(["bind", node.source, node.path, node.read_only, *sub])
                self._fill_volume(node)
            case PathKind.CHANGEABLE:
                self.steps.append(["changeable", node.source, node.path])
                self._fill_volume(node)
            case PathKind.FRESH | PathKind.OPEN | PathKind.HIDE:
                self._fresh_directory(node, in_ours=in_ours)
                self.rebuild(node, entries=node.kind is PathKind.OPEN)

    def _is_the_hosts(self, node: PathNode) -> bool:
        return node.read_only and node.source == node.path and not node.sub

    def _fill_volume(self, node: PathNode) -> None:
        """Mount what differs below a volume: on its entries, or on mount points made in it."""
        for child in node.children.values():
            if child.kind is None:
                self._fill_volume(child)
            else:
                self._place(child, in_ours=False, shown=False)

    def _pass_through(self, node: PathNode, *, in_ours: bool, shown: bool) -> None:
        """A directory of the host with differences below it."""
        on_host = shown and self._host.kind(node.path) == "dir"
        # If the host has every mount point, one mount of the whole directory is enough.
        if on_host and all(self._fits(child) for child in node.children.values()):
            if in_ours:
                self.steps.append(["host", node.path])
            for child in node.children.values():
                self._place(child, in_ours=False, shown=True)
            return
        self._fresh_directory(node, in_ours=in_ours)
        self.rebuild(node, entries=shown)

    def _fits(self, node: PathNode) -> bool:
        """Whether the host has a file or directory to mount this node on."""
        host_kind = self._host.kind(node.path)
        if node.kind is PathKind.HIDE and not node.children:
            return True
        if node.kind is PathKind.BIND:
            source = self._host.kind(posixpath.join(node.source, node.sub))
            # A path beneath a volume that is missing becomes a directory.
            made = bool(node.sub) and not source
            return host_kind == ("dir" if source == "dir" or made else "file")
        return host_kind == "dir"

    def _fresh_directory(self, node: PathNode, *, in_ours: bool) -> None:
        self.steps.append(["dir" if in_ours else "disk", node.path, node.mode])

    def _own(self, node: PathNode) -> None:
        if node.path == "/dev":
            self.steps += devices(self._host)
            for child in node.children.values():
                self._place(child, in_ours=True, shown=False)
        else:
            self.steps.append([node.path.strip("/"), node.path])


def devices(tree: HostTree) -> list[Step]:
    """`/dev`: harmless devices, accelerators, and the container's own terminals."""
    names = [name for name in tree.entries("/dev") if name.startswith(_DEVICE_PREFIXES)]
    steps: list[Step] = [["dir", "/dev", 0o755]]
    steps += [
        ["bind", f"/dev/{name}", f"/dev/{name}", False]
        for name in (*_DEVICES, *names)
        if tree.kind(f"/dev/{name}")
    ]
    steps += [["pts", "/dev/pts"], ["link", "/dev/ptmx", "pts/ptmx"]]
    links = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    return [*steps, *(["link", f"/dev/{n}", f"/proc/self/{t}"] for n, t in links.items())]
