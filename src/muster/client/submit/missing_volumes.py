"""Volumes of a job that do not exist yet: its pods wait for them, so the user is warned.

Claims are looked for on the cluster, directories only if the nodes are this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubekit.errors import ApiError, InvalidJob
from kubekit.objects.kinds import PERSISTENT_VOLUME_CLAIMS
from kubekit.objects.meta import Key
from muster.jobs import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw

_CREATED_TYPES = ("DirectoryOrCreate", "FileOrCreate")
"""Types of hostPath volumes that the node creates."""


def missing_volumes(
    client: BlockingClient, job: Raw, namespace: str, *, local: bool
) -> Iterator[str]:
    """A sentence for every claim and directory that does not exist, each once."""
    try:
        specs = parse.parse_job(job).replica_specs
    except InvalidJob:
        return
    volumes = [volume for spec in specs for volume in spec.spec.get("volumes") or ()]
    for claim in _names(volumes, "persistentVolumeClaim", "claimName"):
        if _lacks_claim(client, Key(namespace, claim)):
            yield (
                f"there is no volume claim {claim} in the namespace {namespace}: the job waits "
                "until it exists (`arena data list` shows the claims)"
            )
    for path in _names(volumes, "hostPath", "path") if local else ():
        if not Path(path).exists():
            yield f"there is no {path} on this machine: the job waits until it exists"


def _names(volumes: list[Any], source: str, field: str) -> list[str]:
    """The claims or the paths of the volumes, each once."""
    sources = [volume.get(source) for volume in volumes if isinstance(volume, dict)]
    names = (
        row.get(field)
        for row in sources
        if isinstance(row, dict) and row.get("type") not in _CREATED_TYPES
    )
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _lacks_claim(client: BlockingClient, claim: Key) -> bool:
    try:
        return client.find(PERSISTENT_VOLUME_CLAIMS, claim) is None
    except ApiError:
        return False  # the user may not read claims: the pods' reason will say it
