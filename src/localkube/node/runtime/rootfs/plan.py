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
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.runtime.rootfs.path_tree import HostTree, PathKind, PathTree
from localkube.node.runtime.rootfs.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localkube.node.standalone.linux.mounts import Step

PRIVATE_DIRECTORIES = ("/tmp", "/run", "/var/tmp")
"""Directories of which every pod has its own, and does not see this machine's."""
_MODES = {"/run": 0o755}
_FRESH = {path: _MODES.get(path, 0o1777) for path in PRIVATE_DIRECTORIES}


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
