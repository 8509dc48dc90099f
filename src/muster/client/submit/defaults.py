"""Values for flags of a submission that the user did not give.

They come from arena's config file, its charts, the files that flags name, and the cluster. Nothing
is written.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubekit.errors import ConfigError, UsageError
from kubekit.objects import yaml_reader
from kubekit.objects.kinds import NAMESPACES, POD_SECURITY, PRIORITY_CLASSES
from kubekit.objects.meta import Key
from kubekit.request_errors import ApiError, NotFound
from muster.client import config_file
from muster.client.submit import job_directories
from muster.client.target import user_name
from muster.jobs.build.code_sync import local_path
from muster.jobs.build.flags import Site, Submission, TensorFlow

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from muster.client.home import Home


def with_defaults(kind: type[Submission], given: dict[str, Any]) -> dict[str, Any]:
    """The given fields of a submission, and defaults from files for the others."""
    fields = {name: value for name, value in given.items() if value is not None}
    if "gang" not in fields:
        fields["gang"] = gang_default(kind.job_kind.trainer)
    config = config_file.read()
    if not fields.get("image_pull_secret"):
        words = (word.strip() for word in config.get("imagePullSecrets", "").split(","))
        fields["image_pull_secret"] = tuple(word for word in words if word)
    if kind is TensorFlow and not fields.get("role_sequence"):
        fields["role_sequence"] = config.get("tfjob_role_sequence", "")
    if fields.get("sync_mode"):
        fields["sync_source"] = _absolute_source(fields.get("sync_source", ""))
        _check_source(fields["sync_mode"], fields["sync_source"])
    return fields


def gang_default(type_: str) -> bool | None:
    """Whether jobs are gangs without the flag: the chart says it, else the config file.

    None if neither does: then the cluster decides.
    """
    chart = _gang_of_chart(type_)
    return config_file.switch("gang") if chart is None else chart


def _gang_of_chart(type_: str) -> bool | None:
    """`enableGangScheduler` where arena keeps its charts: in the home directory, else in /."""
    home = Path.home() / "charts"
    file = (home if home.is_dir() else Path("/charts")) / type_ / "values.yaml"
    try:
        values = yaml_reader.load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # not text, or not YAML
        raise ConfigError(f"{file} cannot be read: {error}") from None
    gang = values.get("enableGangScheduler") if isinstance(values, dict) else None
    if gang is None or isinstance(gang, bool):
        return gang
    raise ConfigError(f"{file}: enableGangScheduler is {gang!r}, not true or false")


def _absolute_source(source: str) -> str:
    """A path of this machine as an absolute path; any other source unchanged."""
    local = source.startswith(("/", "./", "../", "~")) or source in (".", "..")
    if not local and not (source and ":" not in source and Path(source).is_dir()):
        return source
    # Symbolic links are kept: the code is put below the name that the user wrote.
    path = os.path.abspath(os.path.expanduser(source))
    return f"{path}/" if source.endswith("/") else path


def _check_source(mode: str, source: str) -> None:
    """Refuse a path of this machine that has no code: the pod would fail on it."""
    path = Path(local_path(source))
    if not local_path(source):
        return
    if not path.is_dir():
        raise UsageError(f"--sync-source {source}: there is no such directory on this machine")
    if mode.lower() == "git" and not ((path / ".git").exists() or (path / "HEAD").is_file()):
        raise UsageError(
            f"--sync-source {source} is not a git repository",
            hint="Name its top directory; --sync-mode=rsync copies any directory.",
        )


def config_files(args: Submission) -> tuple[tuple[str, bytes], ...]:
    """`--config-file`: where each file goes, and its content."""
    files = []
    for text in args.config_file:
        written, _, inside = text.partition(":")
        path = Path(written).expanduser().absolute()
        try:
            files.append((inside or str(path), path.read_bytes()))
        except OSError as error:
            raise UsageError(
                f"--config-file {text!r} is invalid: {error.strerror or error}",
                hint="Write --config-file=HOST_FILE[:/path/in/container]",
            ) from None
    return tuple(files)


def make_site(args: Submission, home: Home, *, local: bool) -> Site:
    """Facts about the cluster. The log directory on the host is new with every submission."""
    folder = f"{args.name}-{secrets.token_hex(4)}"
    files = config_files(args)
    if not local:
        return Site(logs=f"/arena_logs/{folder}", files=files)
    own = job_directories.find_workspace(args)
    # A file that the job sees at its own path anyway must not hide the rest of its directory.
    files = tuple(row for row in files if not job_directories.shows(own, *row))
    return Site(True, str(home.logs / folder), files, own)


def is_restricted(client: BlockingClient, namespace: str) -> bool:
    """Whether a namespace admits only pods of the pod security standard `restricted`."""
    try:
        found = client.find(NAMESPACES, Key("", namespace))
    except ApiError:
        return False  # the user may not read the namespace: the pods' reason will say it
    return found is not None and found.metadata.labels.get(POD_SECURITY) == "restricted"


def check_priority(client: BlockingClient, args: Submission) -> None:
    """Refuse a priority class that the cluster does not have."""
    if not args.priority:
        return
    try:
        client.get(PRIORITY_CLASSES, Key("", args.priority))
    except NotFound:
        raise UsageError(
            f"there is no priority class {args.priority}",
            hint="`arena get priorityclasses` lists them.",
        ) from None
    except ApiError:
        return  # the user may not read priority classes: the pods' reason will say it


def submitting_user(client: BlockingClient) -> str:
    """The user's name on the cluster; empty if the cluster does not say it."""
    try:
        return user_name(client)
    except ApiError:
        return ""
