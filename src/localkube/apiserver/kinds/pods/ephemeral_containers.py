"""Ephemeral containers: `kubectl debug` adds them to a running pod, and nobody removes them.

Only the subresource `ephemeralcontainers` writes them. It ignores every other change of the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver import codec
from localkube.apiserver.api_errors import (
    Causes,
    duplicate,
    forbidden_field,
    not_found_field,
)
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods import pod_containers

if TYPE_CHECKING:
    from collections.abc import Collection

    from kubekit.objects.meta import Raw

SUBRESOURCE = "ephemeralcontainers"
_FIELD = "ephemeralContainers"
_PATH = f"spec.{_FIELD}"
_REFUSED = "cannot be set for an Ephemeral Container"
# A workload must not depend on them. Empty values are what the real server has for missing ones.
_FORBIDDEN = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def keep_others(new: Raw, old: Raw) -> None:
    """Undo, in place, changes to anything but ephemeral containers."""
    containers = new["spec"].get(_FIELD)
    new["spec"] = codec.copy(old["spec"])
    new["spec"].pop(_FIELD, None)
    if containers:
        new["spec"][_FIELD] = containers
    new["status"] = codec.copy(old.get("status") or {})
    meta = new["metadata"]
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        meta.pop(name, None)
        if name in old["metadata"]:
            meta[name] = codec.copy(old["metadata"][name])


def check_containers(spec: Raw, path: str, volumes: Collection[str]) -> Causes:
    """The causes for invalid ephemeral containers."""
    others = {
        str(container.get("name") or "")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    seen = set(others)
    for where, container in fields.each(spec, path, _FIELD):
        yield from pod_containers.check_container(container, where, volumes)
        name = str(container.get("name") or "")
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        target = str(container.get("targetContainerName") or "")
        if target and target not in others:
            yield not_found_field(f"{where}.targetContainerName", target)
        for field in _FORBIDDEN:
            if container.get(field):
                yield forbidden_field(f"{where}.{field}", _REFUSED)
        for mount_path, mount in fields.each(container, where, "volumeMounts"):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden_field(f"{mount_path}.{field}", _REFUSED)


def check_change(new: Raw, old: Raw) -> Causes:
    """The causes for ephemeral containers that a change removes or changes."""
    by_name = {container.get("name"): container for container in new["spec"].get(_FIELD) or ()}
    for before in old["spec"].get(_FIELD) or ():
        name = before.get("name")
        after = by_name.get(name)
        if after == before:
            continue
        verb = "removed" if after is None else "changed"
        detail = f'existing ephemeral containers "{name}" may not be {verb}\n'
        yield forbidden_field(_PATH, detail)
