"""Pod templates: which container trains, on which port, and checks of the rest.

Only fields that Muster reads or adds to are checked. The API server checks the others when the pod
is created, and its message then appears in the job's status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.jobs.fields import Section
    from muster.jobs.job_kinds import JobKind

_LISTS = ("volumes", "initContainers", "tolerations")
_TEXTS = ("schedulerName", "priorityClassName", "serviceAccountName", "serviceAccount")


def check(template: Section) -> None:
    """Raise InvalidJob if a field of the template has the wrong type."""
    meta, spec = template.section("metadata"), template.section("spec")
    for field in ("labels", "annotations"):
        meta.texts(field)
    meta.sequence("finalizers")
    for field in _LISTS:
        spec.sections(field)
    for field in _TEXTS:
        spec.text(field)
    spec.boolean("hostNetwork")
    spec.section("affinity")
    for container in spec.sections("containers"):
        _check_container(container)


def _check_container(container: Section) -> None:
    for field in ("env", "volumeMounts"):
        for row in container.sections(field):
            row.text("name")
    for port in container.sections("ports"):
        for field in ("name", "protocol"):
            port.text(field)
        if not 0 < port.integer("containerPort") < 65536:
            raise port.error("containerPort", "is no port", "write 1 to 65535")
    resources = container.section("resources")
    for field in ("limits", "requests"):
        amounts = resources.section(field)
        for name, amount in amounts.raw.items():
            if isinstance(amount, bool) or not isinstance(amount, str | int | float):
                raise amounts.error(name, "is not an amount", 'write a number like "500m"')


def main_container(
    job_kind: JobKind, template: Section, warnings: list[tuple[str, str]]
) -> Section:
    """The container that trains; every container must have a name and an image."""
    spec = template.section("spec")
    containers = spec.sections("containers")
    if not containers:
        hint = f"add a container named {job_kind.container!r}"
        raise spec.error("containers", "is empty", hint)
    for container in containers:
        if not container.text("name"):
            raise container.error("name", "is missing", f"write {job_kind.container!r}")
        if not container.text("image"):
            raise container.error("image", "is missing", "name an image")
    names = [container.text("name") for container in containers]
    if job_kind.container in names:
        return containers[names.index(job_kind.container)]
    if not job_kind.port:  # an MPIJob, whose container may have any name
        return containers[0]
    if len(names) > 1:
        raise spec.error(
            "containers",
            f"none of {', '.join(names)} is named {job_kind.container!r}",
            f"name the container that trains {job_kind.container!r}",
        )
    message = f"{containers[0].path} is named {names[0]!r}; it is taken as {job_kind.container!r}"
    warnings.append(("UnusualContainerName", message))
    return containers[0]


def port(job_kind: JobKind, container: Section) -> int:
    """The port on which other replicas reach the container that trains."""
    for row in container.sections("ports"):
        if row.text("name") == job_kind.port_name:
            return row.integer("containerPort")
    return job_kind.port
