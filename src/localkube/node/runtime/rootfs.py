"""The plan of a container's file system: pure. `standalone/linux/mounts.py` carries it out.

`/` is a new directory in which every directory of the host is mounted read-only at its own path,
except:
- `/tmp`, `/run`, `/var/tmp` and `~/.cache` are new and writable, and so is `/root` if the user may
  not enter it: jobs often work there;
- `open` directories (the home, and `/root` if the user may enter it) are new and writable, with the
  host's entries mounted into them read-only: the user's code and interpreters are there, new files
  are private;
- `hidden` paths (the cluster's own state, `~/.kube`) do not exist;
- `visible` paths (the interpreter, code directories) exist even inside new directories;
- `changeable` directories (the interpreter's virtual environment) can be written to, and changes
  are the container's own: `pip install` works. None is around or inside a hidden path;
- `/proc`, `/sys` and `/dev` are the container's own;
- layers (a directory per image) cover the host's files, and volumes cover both. A volume that
  contains a hidden path does not show it, wherever it is mounted.
A host directory that needs an entry it does not have is rebuilt: its entries are mounted one by
one, and the new one is added. So `/training_logs` exists in the pod and the host does not change.
A volume is never rebuilt: its files must stay the real ones. A mount point that it lacks is created
in it, as container runtimes do.

The paths that differ from the host are a tree (`PathTree`), from which `steps_of` makes the steps.
"""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localkube.node.standalone.linux.mounts import Step

PRIVATE_DIRECTORIES = ("/tmp", "/run", "/var/tmp")
"""Directories of which every pod has its own, and does not see this machine's."""
_MODES = {"/run": 0o755}
_FRESH = {path: _MODES.get(path, 0o1777) for path in PRIVATE_DIRECTORIES}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_PREFIXES = ("nvidia", "dri", "infiniband", "kfd")


class Mount(NamedTuple):
    """A host file or directory that the container sees at `path`.

    With `sub`, a path beneath `source`. Only the shim resolves it: programs of the pod may have
    put links there.
    """

    source: str
    path: str
    read_only: bool = False
    sub: str = ""


@dataclass(frozen=True)
class RootfsRules:
    """The rules for all containers of a cluster."""

    home: str
    hidden: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    """Directories that may be mounted although they are inside hidden ones."""
    changeable: tuple[str, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    """Scripts to add: text by path."""


def plan_rootfs(
    rules: RootfsRules,
    mounts: Iterable[Mount] = (),
    layers: Iterable[str] = (),
    tree: HostTree | None = None,
) -> list[Step]:
    """The steps that build a container's root directory."""
    tree = tree or HostTree()
    paths = PathTree(tree)
    for path, mode in (_FRESH | dict.fromkeys(rules.fresh, 0o755)).items():
        paths.put(path, PathKind.FRESH, mode=mode)
    for path in ("/proc", "/sys", "/dev"):
        paths.put(path, PathKind.OWN)
    for path in rules.open:
        paths.put(path, PathKind.OPEN, mode=0o755)
    if rules.home.strip("/"):
        paths.put(rules.home, PathKind.OPEN, mode=0o755)
        paths.put(posixpath.join(rules.home, ".cache"), PathKind.FRESH)
    # In this order, because later rules win: visible paths may be inside hidden ones, layers
    # cover the host, and volumes cover both.
    for path in rules.hidden:
        if not paths.covered(path):  # inside a new directory it is hidden already
            paths.put(path, PathKind.HIDE)
    paths.show(rules)
    for layer in layers:
        paths.lay(layer, "")
    for mount in sorted(mounts, key=lambda m: m.path):  # outer mounts before inner ones
        paths.mount(mount, rules)
    paths.show(rules)  # again: a volume's hidden directory may contain a visible path
    for path in rules.changeable:
        paths.make_changeable(path, rules.hidden)
    programs = [["file", path, text, 0o755] for path, text in rules.programs.items()]
    return steps_of(paths.root, tree) + programs


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
        mode: int = 0o755,
        as_named: bool = False,
    ) -> None:
        node = self._node(path if as_named else self._resolved(path))
        node.kind, node.source, node.sub = kind, source, ""
        node.read_only, node.mode = True, mode

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
