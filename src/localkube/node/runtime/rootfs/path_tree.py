"""The tree of paths of a container's root that differ from the host."""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localkube.node.runtime.rootfs.plan import Mount, RootfsRules


class HostTree:
    """The part of the host's file system that planning reads; tests replace it."""

    def kind(self, path: str) -> str:
        """`dir`, `file`, `link`, or empty if there is no such path."""
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return ""
        return "link" if stat.S_ISLNK(mode) else "dir" if stat.S_ISDIR(mode) else "file"

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def target(self, path: str) -> str:
        """The path that a symbolic link points to."""
        return os.readlink(path)


class PathKind(Enum):
    BIND = "bind"  # another file or directory
    FRESH = "fresh"  # an empty writable directory
    OPEN = "open"  # writable, with the host's entries in it
    CHANGEABLE = "changeable"  # the host's directory, with changes kept elsewhere
    HIDE = "hide"  # nothing
    OWN = "own"  # the kernel's own file systems


@dataclass
class PathNode:
    """A path that differs from the host; its children are the differing paths below it."""

    path: str
    kind: PathKind | None = None
    source: str = ""
    sub: str = ""
    read_only: bool = True
    volume: bool = False
    mode: int = 0o755
    children: dict[str, PathNode] = field(default_factory=dict)


class PathTree:
    """The paths of a container's root that differ from the host."""

    def __init__(self, host: HostTree) -> None:
        self._host = host
        self.root = PathNode("/")
        self._host_paths: dict[str, str] = {}

    def put(
        self,
        path: str,
        kind: PathKind,
        *,
        source: str = "",
        read_only: bool = True,
        mode: int = 0o755,
        as_named: bool = False,
    ) -> None:
        node = self._node(path if as_named else self._resolved(path))
        node.kind, node.source, node.sub = kind, source, ""
        node.read_only, node.mode = read_only, mode

    def mount(self, mount: Mount, rules: RootfsRules) -> None:
        """Mount a volume, in place of new directories below its path."""
        node = self._node(self._resolved(mount.path, own_links=True))
        node.kind, node.source, node.read_only = PathKind.BIND, mount.source, mount.read_only
        node.sub, node.volume = mount.sub, True
        if node.path != "/" and not mount.sub and self._on_host(mount.source) == node.path:
            node.children.clear()  # the real directories, instead of new ones in their place
        else:
            _drop_directories(node)
        if not mount.sub:  # the shim hides what a path beneath the volume turns out to contain
            for path in rules.hidden:
                self._hide_in_volume(node.path, mount.source, path)

    def _hide_in_volume(self, place: str, source: str, hidden: str) -> None:
        """Hide a path of the host that a mount of `source` at `place` contains."""
        top, path = self._on_host(source), self._on_host(hidden)
        if _is_within(path, top):
            below = path[len(top) :].strip("/")
            self.put(
                posixpath.join(place, below).rstrip("/"), PathKind.HIDE, source=path, as_named=True
            )

    def _on_host(self, path: str) -> str:
        """The path with the host's links resolved."""
        if path not in self._host_paths:  # rules ask for the same few paths again and again
            self._host_paths[path] = PathTree(self._host)._resolved(path)
        return self._host_paths[path]

    def show(self, rules: RootfsRules) -> None:
        """Make visible paths exist: the target and, if it is a hidden link, the path itself."""
        for path in sorted(rules.visible):  # outer paths first: a hidden path may be between
            for as_named in (False, True):
                if self.covered(path, as_named=as_named):
                    self.put(path, PathKind.BIND, source=path, as_named=as_named)
                    place = path if as_named else self._resolved(path)
                    for inner in rules.hidden:
                        self._hide_in_volume(place, place, inner)

    def make_changeable(self, path: str, hidden: Iterable[str]) -> None:
        """Keep changes of a directory elsewhere, if the root shows it as the host has it."""
        place = self._on_host(path)
        secret = [self._on_host(each) for each in hidden]
        if any(_is_within(place, each) or _is_within(each, place) for each in secret):
            return
        shown = self._decides(place) or PathNode(place, PathKind.OPEN)
        is_visible = shown.kind is PathKind.BIND and not shown.volume and shown.source == shown.path
        if (is_visible or shown.kind is PathKind.OPEN) and self._host.kind(place) == "dir":
            self.put(place, PathKind.CHANGEABLE, source=place, as_named=True)

    def covered(self, path: str, *, as_named: bool = False) -> bool:
        """Whether the path is inside a directory that shows nothing of the host."""
        shown = self._decides(path if as_named else self._resolved(path))
        return shown is not None and shown.kind in (PathKind.FRESH, PathKind.HIDE)

    def _decides(self, path: str) -> PathNode | None:
        """The last node on the way to a path that has a kind; None if the host's entry is there."""
        node, last = self.root, None
        for name in _parts(path):
            if name not in node.children:
                break
            node = node.children[name]
            last = last if node.kind is None else node
        return last

    def lay(self, layer: str, below: str) -> None:
        """Put a layer over the host's files; a directory that only it has is mounted as one."""
        for name in self._host.entries(layer + below):
            path = f"{below}/{name}"
            both = self._host.kind(layer + path) == self._host.kind(path) == "dir"
            if both:
                self.lay(layer, path)
            else:
                self.put(path, PathKind.BIND, source=layer + path)

    def _node(self, path: str) -> PathNode:
        node = self.root
        for name in _parts(path):
            child = posixpath.join(node.path, name)
            node = node.children.setdefault(name, PathNode(child))
        return node

    def _resolved(self, path: str, depth: int = 0, *, own_links: bool = False) -> str:
        """The path with the host's symbolic links resolved, as they are inside the new root.

        With `own_links`, links in new directories do not count: the new root does not have them.
        """
        done, node, new = "/", self.root, False
        path = posixpath.normpath(path)
        for name in _parts(path):
            done = posixpath.join(done, name)
            node = node.children.get(name, PathNode(done))
            if node.kind is not None:
                new = own_links and node.kind in (PathKind.FRESH, PathKind.HIDE)
            # A path that we replace is not the host's link any more. The depth is the kernel's
            # limit for links: it ends a loop.
            replaced = new or node.kind in (PathKind.BIND, PathKind.FRESH)
            if not replaced and self._host.kind(done) == "link" and depth < 40:
                target = posixpath.join(posixpath.dirname(done), self._host.target(done))
                rest = path[len(done) :] if path.startswith(done) else ""
                target = posixpath.normpath(target + rest)
                return self._resolved(target, depth + 1, own_links=own_links)
        return done


def _drop_directories(node: PathNode) -> None:
    """Forget new and hidden directories below a volume, except those with other mounts in them."""
    for name, child in list(node.children.items()):
        if child.kind in (None, PathKind.HIDE):
            _drop_directories(child)
            if not child.children:
                del node.children[name]
        elif child.kind is PathKind.FRESH:
            del node.children[name]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
