"""The manifest of an existing job as a new one: another name, nothing that the server wrote.

A manifest names its job in more places than `metadata.name`: the gang of its pods, labels by which
arena and affinities find them, the address of a PyTorch master. A copy that kept these would join
the gang of the job that it was copied from.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from muster.contract.gang_dialects import NAME_LABEL
from muster.jobs import names
from muster.jobs.build.flag_values import MAX_NAME_LENGTH
from muster.jobs.build.job_manifest import USER, USER_ID, Bundle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kubekit.objects.meta import Raw

_SERVER_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "muster.dev/submission")
_LABELS_OF_NAME = ("release", "gpu-topology", names.JOB, NAME_LABEL)
_NUMBERED = re.compile(r"(.+)-([0-9]{1,4})")


def next_name(name: str, taken: Collection[str]) -> str:
    """A name for a copy: `train-2` for `train`, `train-3` for `train-2`."""
    match = _NUMBERED.fullmatch(name)
    stem, number = (match[1], int(match[2])) if match else (name, 1)
    while True:
        number += 1
        suffix = f"-{number}"
        candidate = stem[: MAX_NAME_LENGTH - len(suffix)].rstrip("-") + suffix
        if candidate not in taken:
            return candidate


def copied_job(job: Raw, name: str, user: str = "") -> Raw:
    """A new job with this name and the spec of the other; `user` replaces its user."""
    former = job.get("metadata") or {}
    former_name, trainer = str(former.get("name")), str(job.get("kind")).lower()
    metadata: Raw = {"name": name}
    if former.get("namespace"):
        metadata["namespace"] = former["namespace"]
    for field in ("labels", "annotations"):
        rows = former.get(field) or {}
        kept = {key: value for key, value in rows.items() if key not in _SERVER_ANNOTATIONS}
        kept.pop(USER, None)
        if kept:
            metadata[field] = kept
    spec = copy.deepcopy(job.get("spec") or {})
    new: Raw = {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": metadata}
    new["spec"] = spec
    policy = spec.get("runPolicy")
    if isinstance(policy, dict):
        policy.pop("suspend", None)  # else the copy would not start
    renamed = {
        former_name: name,
        f"{trainer}-{former_name}": f"{trainer}-{name}",
        f"{former_name}-master-0": f"{name}-master-0",
    }
    _rename(new, renamed)
    if user and USER in (former.get("annotations") or {}):
        return _of_user(new, user)
    return new


def companion_names(job: Raw) -> list[str]:
    """The ConfigMaps that were created with the job and are deleted with it."""
    name = str((job.get("metadata") or {}).get("name"))
    found = (
        str((node.get("configMap") or {}).get("name") or "")
        for node in _mappings(job.get("spec"))
        if isinstance(node.get("configMap"), dict)
    )
    return sorted({row for row in found if row.startswith(f"{name}-")})


def _rename(document: Raw, renamed: dict[str, str]) -> None:
    """Replace the former name where a manifest means the job by it."""
    for node in _mappings(document):
        for field in ("labels", "matchLabels"):
            rows = node.get(field)
            if not isinstance(rows, dict):
                continue
            rows.pop(USER_ID, None)
            for key in _LABELS_OF_NAME:
                if rows.get(key) in renamed:
                    rows[key] = renamed[rows[key]]
        if node.get("name") == "MASTER_ADDR" and node.get("value") in renamed:
            node["value"] = renamed[node["value"]]
        if "creationTimestamp" in node and node["creationTimestamp"] is None:
            del node["creationTimestamp"]  # clients in Go write it into templates


def _mappings(value: Any) -> Iterator[Raw]:
    """Every mapping inside the value."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _of_user(job: Raw, user: str) -> Raw:
    for field in ("labels", "annotations"):
        job["metadata"].setdefault(field, {})
    for field, replicas in job["spec"].items():
        if not field.endswith("ReplicaSpecs"):
            continue
        for row in replicas.values():
            metadata = row.setdefault("template", {}).setdefault("metadata", {})
            metadata["labels"] = metadata.get("labels") or {}
    return Bundle(job).with_user(user).job
