"""Changing the number of replicas of a job, with all fields that `submit` derived from the old one.

A gang that needed all its members needs all members of the new size. The choices of a person (a
smaller minimum, their own variable) stay: a field changes only if it has the value that the
old number gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kubekit.errors import UsageError
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import Raw, mapping
from muster.contract.gang import RESTART_ANNOTATION
from muster.contract.gang_dialects import MIN_LABEL
from muster.jobs.build.job_manifest import REQUESTED, TOPOLOGY_SIZE
from muster.jobs.build.pod_templates import WORKERS
from muster.jobs.names import ALIYUN_GPU, NVIDIA_GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class WrittenRole:
    """One role as it is written: its name in lower case, its path and its body."""

    role: str
    path: str
    body: Raw

    @property
    def count(self) -> int:
        written = self.body.get("replicas")
        return written if isinstance(written, int) else 1

    @property
    def template(self) -> Raw:
        return mapping(self.body.get("template"))

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        main = next(iter(_containers(self.template, "containers")), {})
        limits = mapping(mapping(main.get("resources")).get("limits"))
        amounts = [str(limits[name]) for name in (NVIDIA_GPU, ALIYUN_GPU) if name in limits]
        return sum(read_integer(amount) or 0 for amount in amounts)


def _about_single(roles: list[str]) -> str:
    """A hint for users who wrote --workers=1, and do not know of a chief or a master."""
    if roles not in (["chief"], ["master"]):
        return ""
    return f"A job of one worker is one {roles[0]}. Submit it again with more workers."


def operations(raw: Raw, counts: dict[str, int]) -> list[Raw]:
    """The JSON patch that gives roles these counts, in whichever form the job is written.

    Workers are counted as by `submit`: the master of a PyTorch job is one of them.
    """
    before = _written_roles(raw)
    roles = [written.role for written in before]
    for role in counts:
        if role not in roles:
            known = ", ".join(sorted(roles)) or "none"
            text = f"the job has no {role} replicas; its roles: {known}"
            raise UsageError(text, hint=_about_single(roles))
    if "worker" in counts and "master" in roles:
        if counts["worker"] < 1:
            raise UsageError("--workers counts the master: at least 1")
        counts = {**counts, "worker": counts["worker"] - 1}
    after = [
        replace(part, body={**part.body, "replicas": counts.get(part.role, part.count)})
        for part in before
    ]
    replicas = [
        {"op": "add", "path": f"{part.path}/replicas", "value": part.count}
        for part in after
        if part.role in counts
    ]
    policy = mapping(mapping(mapping(raw.get("spec")).get("runPolicy")).get("schedulingPolicy"))
    annotations = mapping(mapping(raw.get("metadata")).get("annotations"))
    members, gpus = ([count(parts) for parts in (before, after)] for count in (_members, _gpus))
    return [
        *replicas,
        *_follow(policy, "/spec/runPolicy/schedulingPolicy", "minAvailable", *members),
        *_follow(annotations, "/metadata/annotations", REQUESTED, *map(str, gpus)),
        *_restarts(annotations, *(sum(part.count for part in parts) for parts in (before, after))),
        *_templates(before, after),
    ]


def _written_roles(raw: Raw) -> list[WrittenRole]:
    """Every role and its path; unlike `parse`, also of an invalid manifest."""
    spec = raw.get("spec") or {}
    for field, value in spec.items():
        if not field.lower().endswith("replicaspecs"):
            continue
        path = f"/spec/{field}"
        if isinstance(value, dict):
            return [WrittenRole(r.lower(), f"{path}/{r}", body or {}) for r, body in value.items()]
        if isinstance(value, list):
            return [
                WrittenRole(str(row.get("tfReplicaType") or "Chief").lower(), f"{path}/{i}", row)
                for i, row in enumerate(value)
            ]
    return [WrittenRole("worker", "/spec", spec)] if "replicas" in spec else []


def _members(parts: Iterable[WrittenRole]) -> int:
    """The number of replicas that the gang counts."""
    return sum(part.count for part in parts if part.role != "launcher")


def _workers(parts: Iterable[WrittenRole]) -> int:
    """The workers as `submit` counts them: a master is one of them."""
    return sum(part.count for part in parts if part.role in ("worker", "master"))


def _gpus(parts: Iterable[WrittenRole]) -> int:
    """The GPUs of the job, as `submit` counts them."""
    return sum(part.count * part.gpus for part in parts if part.role != "ps")


def _restarts(annotations: Raw, total: int, new_total: int) -> Iterator[Raw]:
    """The only replica of a job that `submit` wrote restarts with the peers that it gets."""
    says = RESTART_ANNOTATION in annotations
    if total == 1 < new_total and REQUESTED in annotations and not says:
        yield _change("add", "/metadata/annotations", RESTART_ANNOTATION, "gang")


def _templates(before: list[WrittenRole], after: list[WrittenRole]) -> Iterator[Raw]:
    """The changes to templates, which tell every pod the number of replicas."""
    members, new_members = str(_members(before)), str(_members(after))
    workers, new_workers = str(_workers(before)), str(_workers(after))
    for part in before:
        path = f"{part.path}/template"
        labels = mapping(mapping(part.template.get("metadata")).get("labels"))
        yield from _follow(labels, f"{path}/metadata/labels", MIN_LABEL, members, new_members)
        yield from _follow(labels, f"{path}/metadata/labels", TOPOLOGY_SIZE, workers, new_workers)
        for field in ("initContainers", "containers"):
            for number, container in enumerate(_containers(part.template, field)):
                for row, variable in enumerate(_objects(container.get("env"))):
                    if variable.get("name") == WORKERS:
                        at = f"{path}/spec/{field}/{number}/env/{row}"
                        yield from _follow(variable, at, "value", workers, new_workers)


def _follow(holder: Raw, path: str, key: str, old: object, new: object) -> Iterator[Raw]:
    if old != new and holder.get(key) == old:
        yield _change("replace", path, key, new)


def _change(op: str, path: str, key: str, value: object) -> Raw:
    pointer = key.replace("~", "~0").replace("/", "~1")  # RFC 6901
    return {"op": op, "path": f"{path}/{pointer}", "value": value}


def _containers(template: Raw, field: str) -> list[Raw]:
    return _objects(mapping(template.get("spec")).get(field))


def _objects(value: Any) -> list[Raw]:
    return [mapping(item) for item in value] if isinstance(value, list) else []
