"""The volumes of a job's pods and where they are mounted.

The order is fixed: config files, logs, code, claims, host directories, shared memory, workspace.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import UsageError
from muster.jobs.build import flag_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.meta import Raw
    from muster.jobs.build.flags import Site, Submission

LOGS = "training-logs-volume"
_CONFIG_LIMIT = 1 << 20
_MOUNT_HINT = (
    "--data, --data-dir, --config-file, --logdir and code sync must each have a different path."
)


class Mounted(NamedTuple):
    """A volume and its mount in a container."""

    volume: Raw
    mount: Raw


def mounted(name: str, path: str, **source: Raw) -> Mounted:
    """A volume of any kind at a path."""
    return Mounted({"name": name, **source}, {"name": name, "mountPath": path})


def claims(args: Submission) -> list[Mounted]:
    """`--data`: claims, each once."""
    rows: list[Mounted] = []
    for text in args.data:
        claim, colon, path = text.partition(":")
        if not colon or not flag_values.is_path(path):
            raise flag_values.wrong("--data", text, "Write --data=CLAIM:/absolute/path")
        flag_values.object_name("--data", claim)
        name = claim.replace(".", "-")  # the name of a volume has no dots
        if any(row.volume["name"] == name for row in rows):
            raise UsageError(f"--data names the claim {claim} twice")
        rows.append(mounted(name, path, persistentVolumeClaim={"claimName": claim}))
    return rows


def host_directories(args: Submission) -> list[Mounted]:
    """`--data-dir`: directories of the node."""
    rows = []
    for number, text in enumerate(args.data_dir):
        host, colon, path = text.partition(":")
        if not flag_values.is_path(host) or (colon and not flag_values.is_path(path)):
            raise flag_values.wrong("--data-dir", text, "Write --data-dir=/host[:/path]")
        rows.append(mounted(f"training-data-{number}", path or host, hostPath={"path": host}))
    return rows


def shared_memory(args: Submission) -> list[Mounted]:
    """/dev/shm of the requested size: the usual 64 MB are too few for data loaders."""
    size = {"sizeLimit": args.share_memory} if args.share_memory else {}
    return [mounted("dshm", "/dev/shm", emptyDir={"medium": "Memory", **size})]


def logs(args: Submission, site: Site) -> list[Mounted]:
    """The host directory for the logs that TensorBoard reads, unless another volume has them."""
    if not args.tensorboard or not args.logdir.startswith("/"):
        return []
    if any(below(args.logdir, path) for path in mount_paths(args)):
        return []
    path = args.logdir if logs_in_workspace(args, site) else site.logs
    return [mounted(LOGS, args.logdir, hostPath={"path": path, "type": "DirectoryOrCreate"})]


def logs_in_workspace(args: Submission, site: Site) -> bool:
    """Whether the logs are in a directory of the user, which the replicas see anyway."""
    return any(below(args.logdir, folder) for folder in site.workspace.directories)


def workspace(args: Submission, site: Site) -> list[Mounted]:
    """The user's own directories; the mounts of flags replace them."""
    taken = mount_paths(args)
    rows: list[Mounted] = []
    for folder in site.workspace.directories:
        if not any(below(folder, path) for path in taken):
            name = f"workspace-{len(rows)}"
            rows.append(mounted(name, folder, hostPath={"path": folder, "type": "Directory"}))
    return rows + programs(site)


def programs(site: Site) -> list[Mounted]:
    """The user's environments in directories of which pods have their own."""
    rows = []
    for number, folder in enumerate(site.workspace.programs):
        row = mounted(f"programs-{number}", folder, hostPath={"path": folder, "type": "Directory"})
        row.mount["readOnly"] = True
        rows.append(row)
    return rows


def mount_paths(args: Submission) -> list[str]:
    """The mount paths of `--data` and `--data-dir`."""
    return [row.mount["mountPath"] for row in (*claims(args), *host_directories(args))]


def shared_logs(args: Submission, site: Site) -> bool:
    """Whether every node can read the logs: on a claim, remote, or on the only machine."""
    if site.local or not args.logdir.startswith("/"):
        return True
    return any(below(args.logdir, row.mount["mountPath"]) for row in claims(args))


def model_directory(args: Submission, site: Site) -> str:
    """Where the job exports models: `--model-dir`, else the place of `--model-source pvc://…` if
    the job mounts that claim; empty if neither is given."""
    if not args.model_dir:
        directory = _source_directory(args)
        if args.model_source and not (directory or args.model_name):
            raise UsageError(
                f"--model-source {args.model_source} is not in a claim that the job mounts",
                hint="For example --data=models:/models --model-source=pvc://models/mnist",
            )
        return directory
    hint = "Name a directory of a volume, e.g. --data CLAIM:/models --model-dir /models/mnist"
    path = flag_values.path("--model-dir", args.model_dir, hint)
    if not any(below(path, folder) for folder in (*mount_paths(args), *site.workspace.directories)):
        raise UsageError(
            f"--model-dir {path} is not in a volume of the job, so nobody else can see it",
            hint=hint,
        )
    return posixpath.normpath(path)


def _source_directory(args: Submission) -> str:
    """`pvc://CLAIM/path` or `pvc://NAMESPACE/CLAIM/path`, below the mount of the claim."""
    scheme, _, place = args.model_source.partition("://")
    if scheme != "pvc":
        return ""
    mounts = {
        row.volume["persistentVolumeClaim"]["claimName"]: row.mount["mountPath"]
        for row in claims(args)
    }
    words = [word for word in place.split("/") if word not in ("", ".", "..")]
    for claim, rest in ((words[:1], words[1:]), (words[1:2], words[2:])):
        if claim and claim[0] in mounts:
            return posixpath.join(mounts[claim[0]], *rest)
    return ""


def below(path: str, folder: str) -> bool:
    """Whether a path is the folder or inside it, by name."""
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def config_maps(args: Submission, site: Site) -> list[Raw]:
    """`--config-file`: a ConfigMap for each directory in the container."""
    maps = []
    for folder, files in sorted(_folders(site).items()):
        _check_size(files)
        plain: dict[str, str] = {}
        binary: dict[str, str] = {}
        for name, content in files.items():
            try:
                plain[name] = content.decode()
            except UnicodeDecodeError:  # JSON has no bytes
                binary[name] = base64.b64encode(content).decode()
        data = {"data": plain, "binaryData": binary}
        maps.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": _config_name(args, folder), "labels": {"createdBy": "arena"}},
                **{key: value for key, value in data.items() if value},
            }
        )
    return maps


def _check_size(files: Mapping[str, bytes]) -> None:
    total = sum(map(len, files.values()))
    if total > _CONFIG_LIMIT:
        raise UsageError(
            f"--config-file: {', '.join(sorted(files))} are {total:,} bytes; "
            f"a ConfigMap holds {_CONFIG_LIMIT:,}",
            hint="Put large files on a volume: --data CLAIM:/path or --data-dir.",
        )


def config_files(args: Submission, site: Site) -> list[Mounted]:
    """`--config-file`: the mounts of its ConfigMaps."""
    folders = sorted(_folders(site))
    return [
        mounted(f"config-{number}", folder, configMap={"name": _config_name(args, folder)})
        for number, folder in enumerate(folders)
    ]


def _folders(site: Site) -> dict[str, dict[str, bytes]]:
    folders: dict[str, dict[str, bytes]] = {}
    for path, content in site.files:
        hint = "Write --config-file=HOST_FILE[:/path/in/container]"
        flag_values.path("--config-file", path, hint)
        folder, name = posixpath.split(posixpath.normpath(path))
        if folder == "/":
            raise flag_values.wrong("--config-file", path, "A file cannot be directly below /.")
        folders.setdefault(folder, {})[name] = content
    return folders


def _config_name(args: Submission, folder: str) -> str:
    # The name that arena gives it.
    digest = hashlib.md5(folder.encode(), usedforsecurity=False).hexdigest()
    return f"{args.name}-{digest[:15]}"


def split(rows: Iterable[Mounted]) -> tuple[list[Raw], list[Raw]]:
    """The volumes and the mounts; UsageError if two have the same path."""
    rows = list(rows)
    taken: set[str] = set()
    for row in rows:
        place = posixpath.normpath(row.mount["mountPath"])
        if place in taken:
            raise UsageError(f"two volumes would be mounted at {place}", hint=_MOUNT_HINT)
        taken.add(place)
    return [row.volume for row in rows], [row.mount for row in rows]
