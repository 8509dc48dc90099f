"""The cluster spec of a replica: the variables and files by which it finds the others.

Only variables that frameworks read are shown: others may be secrets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kubekit.objects.meta import Raw


_NAMES = frozenset(
    (
        "TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "GROUP_RANK",
        "COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID",
    )
)  # fmt: skip
_PREFIXES = ("PET_", "JAX_", "OMPI_MCA_", "PRTE_MCA_", "I_MPI_", "HYDRA_", "K_MPI_")
FILES = ("hostfile", "discover_hosts.sh")


class SpecValue(msgspec.Struct, frozen=True):
    """A variable or a file."""

    name: str
    text: str
    """JSON is indented."""

    @property
    def long(self) -> bool:
        return "\n" in self.text or len(self.text) > 80


class ClusterSpec(msgspec.Struct, frozen=True):
    path: str
    replicas: tuple[str, ...]
    replica: str
    """The chosen one; empty if the job has no pods."""
    variables: tuple[SpecValue, ...] = ()
    files: tuple[SpecValue, ...] = ()


def cluster_spec(
    path: str, replicas: Sequence[str], pod: Raw | None, files: Mapping[str, str]
) -> ClusterSpec:
    """The spec of one pod; `files` are those of the job's ConfigMap."""
    if pod is None:
        return ClusterSpec(path, tuple(replicas), "")
    mounted = [SpecValue(name, files[name]) for name in FILES if name in files]
    return ClusterSpec(
        path,
        tuple(replicas),
        str(pod["metadata"]["name"]),
        tuple(_variables(pod["spec"].get("containers") or ())),
        tuple(mounted),
    )


def config_map_of(pod: Raw, job: str) -> str:
    """The ConfigMap of the job that the pod mounts; empty if it mounts none."""
    volumes = pod["spec"].get("volumes") or ()
    names = {(volume.get("configMap") or {}).get("name") for volume in volumes}
    return f"{job}-config" if f"{job}-config" in names else ""


def _variables(containers: Iterable[Raw]) -> list[SpecValue]:
    # The last variable of a name wins.
    rows = {row["name"]: row for container in containers for row in container.get("env") or ()}
    return [
        SpecValue(name, _readable(str(row.get("value") or "")))
        for name, row in rows.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    ]


def _readable(text: str) -> str:
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
