"""A pod's volumes as directories on the host, which containers mount.

`prepare` makes them before a container starts; `refresh` updates them when one of their objects has
changed. A volume appears complete or not at all. `PodFolders` is for those who look at files of
pods from outside: it says where a directory of a pod is on this machine.

All files of a volume are replaced in one step: as in Kubernetes, the files are in a directory of
their own (the payload), and the link `..data` points to it. Programs open `NAME`, a link to
`..data/NAME`: replacing the one link `..data` changes every file at the same moment. A container
that mounted a single file (subPath) keeps the old one.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects import quantity
from localkube.node import env_and_files
from localkube.node.env_and_files import PodContext, VolumeFile, volume_files
from localkube.node.pod import Container, HostPath, MissingReference, Pod, Volume, VolumeMount
from localkube.node.runtime.remove_tree import remove_tree
from localkube.node.runtime.rootfs import Mount
from localkube.node.standalone.linux.files import inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.node.config_maps_and_secrets import ReferenceReader
    from localkube.node.pod_events import PodEvents

CLAIMS_FOLDER = "volumes"
"""In the data directory: the directories of claims, which outlive their pods."""
_DATA = "..data"


def in_memory(pod: Pod) -> dict[str, str]:
    """The emptyDir volumes in memory, with their mount options."""
    options = {}
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
            limit = volume.empty_dir.size_limit
            size = f",size={quantity.parse_whole(limit)}" if limit else ""
            options[volume.name] = f"mode=1777{size}"
    return options


class VolumeDirectories:
    """Volumes are in the pod's own folder, or anywhere on the machine (hostPath, claims).

    That path may not be in a hidden directory, except below the `shared` directories.
    """

    def __init__(
        self, data_dir: Path, hidden: Iterable[str] = (), shared: Iterable[str] = ()
    ) -> None:
        self._pods = data_dir / "pods"
        self._hidden = [Path(path) for path in hidden]
        self._shared = [Path(path) for path in shared]

    def prepare(self, pod: Pod, context: PodContext) -> dict[str, str]:
        """Make every volume of the pod; returns their directories by name."""
        return {volume.name: self._prepare(volume, pod, context) for volume in pod.spec.volumes}

    def refresh(self, pod: Pod, context: PodContext) -> None:
        """Update volumes to the current objects; files of a deleted object stay."""
        for volume in pod.spec.volumes:
            folder = self._folder(volume, pod)
            with contextlib.suppress(MissingReference):
                files = volume_files(volume, pod, context)
                if files is not None and folder.is_dir():
                    replace_files(folder, files)

    def own(self, pod: Pod) -> dict[str, str]:
        """The directories of volumes in the pod's folder, by name."""
        return {volume.name: str(self._folder(volume, pod)) for volume in pod.spec.volumes}

    def directory(self, volume: Volume, pod: Pod, claims: Mapping[str, HostPath]) -> str:
        """The directory of one volume, which may not exist yet; MissingReference for a claim that
        is not bound, and for a path that is hidden from pods."""
        host_path = _host_path(volume, claims)
        if host_path is None:
            return str(self._folder(volume, pod))
        self.refuse_hidden(host_path.path)
        return host_path.path

    def _folder(self, volume: Volume, pod: Pod) -> Path:
        return self._pods / pod.metadata.uid / "volumes" / volume.name

    def _prepare(self, volume: Volume, pod: Pod, context: PodContext) -> str:
        directory = self.directory(volume, pod, context.claims)
        host_path = _host_path(volume, context.claims)
        if host_path is not None:
            _check(host_path)
        # A restarted container finds the files of its last attempt.
        elif not os.path.isdir(directory):
            _make(Path(directory), volume_files(volume, pod, context))
        return directory

    def refuse_hidden(self, path: str) -> None:
        """A volume in a hidden directory would be empty: say so instead."""
        _refuse_nul(f"the hostPath {path}", path)
        if hidden := self._hidden_folder(path):
            message = f"hostPath {path} is in {hidden}, which is hidden from pods"
            raise MissingReference(message)

    def is_hidden(self, path: str) -> bool:
        """Whether pods see an empty directory in place of this path."""
        return self._hidden_folder(path) is not None

    def _hidden_folder(self, path: str) -> Path | None:
        real = Path(path).resolve()
        if any(shared.resolve() in real.parents for shared in self._shared):
            return None
        return next((row for row in self._hidden if real.is_relative_to(row.resolve())), None)


def mounts(
    pod: Pod, container: Container, sources: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """The pod's volumes as one container mounts them."""
    read_only_volumes = {volume.name for volume in pod.spec.volumes if _is_read_only(volume)}
    result = []
    for mount in container.volume_mounts:
        if mount.name not in sources:
            raise MissingReference(f'volume "{mount.name}" not found')
        source = sources[mount.name]
        sub_path = mount.sub_path or env_and_files.expand(mount.sub_path_expr, variables)
        _refuse_nul(f'the subPath of volume "{mount.name}"', sub_path)
        read_only = mount.read_only or mount.name in read_only_volumes
        result.append(Mount(source, mount.mount_path, read_only, inside(sub_path)))
    return tuple(result)


@dataclass(frozen=True)
class PodFolders:
    """The directories of the pods on these nodes."""

    nodes: frozenset[str]
    pods: Informer[Pod]
    references: ReferenceReader
    volumes: VolumeDirectories
    events: PodEvents

    def subscribe(self, on_change: Callable[[Change[Pod]], None]) -> None:
        """Tell of every change of a pod on these nodes."""

        def changed(change: Change[Pod]) -> None:
            if change.current.spec.node_name in self.nodes:
                on_change(change)

        self.pods.subscribe(changed)

    async def locate(self, pod: Pod, directory: str) -> Location | None:
        """Where a directory of the pod is on this machine; None while a claim is not bound yet.

        MissingReference says why it is nowhere.
        """
        try:
            claims = await self.references.claims(pod)
            return locate(pod, directory, self.volumes, claims)
        except MissingReference:
            if _waits_for_claim(pod):
                return None
            raise

    def is_hidden(self, path: str) -> bool:
        """Whether pods must not see this path of the machine."""
        return self.volumes.is_hidden(path)

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """A warning about the pod, once for all pods of its owner."""
        self.events.record_once_per_owner(pod, reason, message, warning=True)


class Location(NamedTuple):
    """A directory of this machine: the volume's own, and the path below it."""

    top: str
    path: str
    is_of_pod: bool = False
    """Whether the volume is in the pod's folder, which other pods do not see."""


def locate(
    pod: Pod, directory: str, volumes: VolumeDirectories, claims: Mapping[str, HostPath]
) -> Location:
    """Where a directory of a pod is; MissingReference says why it is nowhere."""
    directory = posixpath.normpath(directory)
    if not directory.startswith("/") or "\0" in directory:
        raise MissingReference(f"{directory!r} is not an absolute path")
    mounts = [
        (mount, inside)
        for container in pod.spec.containers
        for mount in container.volume_mounts
        if (inside := _inside(directory, mount.mount_path)) is not None
    ]
    if not mounts:
        raise MissingReference(f"{directory} is not in a volume of the pod")
    mount, inside = max(mounts, key=lambda row: len(posixpath.normpath(row[0].mount_path)))
    volume = _volume(pod, mount)
    top, path = volumes.directory(volume, pod, claims), posixpath.join(mount.sub_path, inside)
    if volume.empty_dir is not None:
        return Location(top, path, is_of_pod=True)
    # The pod sees an empty directory in place of a hidden one in its volume; so must we.
    volumes.refuse_hidden(posixpath.join(top, path))
    return Location(top, path)


def _host_path(volume: Volume, claims: Mapping[str, HostPath]) -> HostPath | None:
    """The path on this machine that the volume shows; None for a directory of the pod."""
    if volume.persistent_volume_claim is None:
        return volume.host_path
    name = volume.persistent_volume_claim.claim_name
    if name not in claims:
        raise MissingReference(
            f'persistentvolumeclaim "{name}" is not bound to a volume of this node'
        )
    return claims[name]


def _make(folder: Path, files: list[VolumeFile] | None) -> None:
    draft = folder.with_name(f".{folder.name}")
    remove_tree(draft)  # of a daemon that was killed here
    draft.mkdir(parents=True)
    draft.chmod(0o777 if files is None else 0o755)
    if files is not None:
        replace_files(draft, files)
    draft.rename(folder)


def _check(source: HostPath) -> None:
    """Create or check the path according to its type."""
    path = Path(source.path)
    match source.type:
        case "DirectoryOrCreate":
            _make_open(path)
        case "FileOrCreate" if not path.exists():
            path.touch()
            path.chmod(0o644)
        case "Directory" if not path.is_dir():
            raise MissingReference(f"hostPath type check failed: {path} is not a directory")
        case "File" if not path.is_file():
            raise MissingReference(f"hostPath type check failed: {path} is not a file")
        case "" | "Directory" | "File" if not path.exists():
            raise MissingReference(f"hostPath {path} does not exist")


def _refuse_nul(name: str, path: str) -> None:
    """A path may come from a PersistentVolume or a variable, which may have the character."""
    if "\0" in path:
        raise MissingReference(f"{name} contains the NUL character".replace("\0", "\\0"))


def _make_open(path: Path) -> None:
    """Make a directory that other users may enter, like the kubelet: our umask makes private
    ones."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def _is_read_only(volume: Volume) -> bool:
    """Whether no program may write to it: files of API objects change only with the objects."""
    claim = volume.persistent_volume_claim
    objects = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(objects) or (claim is not None and claim.read_only)


def replace_files(folder: Path, files: Iterable[VolumeFile]) -> None:
    """Make these the files of the volume, unless they already are; files of others stay."""
    new = {inside(file.path): file for file in files}
    current = _current(folder)
    if current is None or _read(current) != {path: f.data for path, f in new.items()}:
        payload = Path(tempfile.mkdtemp(prefix="..", dir=folder))
        payload.chmod(0o755)  # mkdtemp makes it private
        for path, file in new.items():
            for parent in reversed(Path(path).parents[:-1]):  # any user in the pod may enter
                (payload / parent).mkdir(exist_ok=True)
                (payload / parent).chmod(0o755)
            (payload / path).write_bytes(file.data)
            (payload / path).chmod(file.mode)
        # A link cannot be overwritten, but renaming another one over it is atomic.
        link = folder / f"{_DATA}_new"
        link.unlink(missing_ok=True)
        link.symlink_to(payload.name)
        link.replace(folder / _DATA)
    # Even if nothing changed: a crash may have come between the switch and the links.
    _tidy(folder, {path.split("/", 1)[0] for path in new})


def _tidy(folder: Path, shown: set[str]) -> None:
    """Make missing links; remove links and directories left by a crash or an older version."""
    for name in shown:
        if not os.path.lexists(folder / name):
            (folder / name).symlink_to(f"{_DATA}/{name}")
    current = _current(folder)
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.name != _DATA and entry.name not in shown:
            entry.unlink()
        elif entry.name.startswith("..") and not entry.is_symlink() and entry != current:
            shutil.rmtree(entry, ignore_errors=True)


def _current(folder: Path) -> Path | None:
    try:
        return folder / os.readlink(folder / _DATA)
    except FileNotFoundError:
        return None


def _read(payload: Path) -> dict[str, bytes]:
    files = (path for path in payload.rglob("*") if path.is_file())
    return {str(path.relative_to(payload)): path.read_bytes() for path in files}


def _inside(path: str, folder: str) -> str | None:
    """The path relative to a folder that contains it."""
    folder = posixpath.normpath(folder).rstrip("/")
    if path == folder:
        return "."
    return path[len(folder) + 1 :] if path.startswith(f"{folder}/") else None


def _volume(pod: Pod, mount: VolumeMount) -> Volume:
    volume = next((row for row in pod.spec.volumes if row.name == mount.name), None)
    if volume is None:
        raise MissingReference(f'volume "{mount.name}" not found')
    if mount.sub_path_expr:
        raise MissingReference(f'volume "{volume.name}" has a subPathExpr')
    if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
        raise MissingReference(f'volume "{volume.name}" is in memory')
    return volume


def _waits_for_claim(pod: Pod) -> bool:
    """Whether a claim of the pod may be bound later."""
    has_claim = any(row.persistent_volume_claim is not None for row in pod.spec.volumes)
    return has_claim and not pod.finished and pod.status.phase != "Running"
