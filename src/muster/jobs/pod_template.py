"""Pod templates: which container trains, on which port, and checks of the rest.

Only fields that Muster reads or adds to are checked. The API server checks the others when the pod
is created, and its message then appears in the job's status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.errors import InvalidJob
from muster.jobs.fields import boolean, integer, mapping, objects, sequence, text

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.jobs.job_kinds import JobKind

_LISTS = ("volumes", "initContainers", "tolerations")
_TEXTS = ("schedulerName", "priorityClassName", "serviceAccountName", "serviceAccount")


def check(template: Raw, path: str) -> None:
    """Raise InvalidJob if a field of the template has the wrong type."""
    meta = mapping(template.get("metadata"), f"{path}.metadata")
    for field in ("labels", "annotations"):
        strings(meta.get(field), f"{path}.metadata.{field}")
    sequence(meta.get("finalizers"), f"{path}.metadata.finalizers")
    spec = mapping(template.get("spec"), f"{path}.spec")
    for field in _LISTS:
        objects(spec.get(field), f"{path}.spec.{field}")
    for field in _TEXTS:
        text(spec.get(field), f"{path}.spec.{field}")
    boolean(spec.get("hostNetwork"), f"{path}.spec.hostNetwork")
    mapping(spec.get("affinity"), f"{path}.spec.affinity")
    containers = f"{path}.spec.containers"
    for i, item in enumerate(objects(spec.get("containers"), containers)):
        _check_container(item, f"{containers}[{i}]")


def strings(value: object, path: str) -> dict[str, str]:
    """A mapping from text to text, such as labels and annotations."""
    return {name: text(item, f"{path}.{name}") for name, item in mapping(value, path).items()}


def _check_container(container: Raw, path: str) -> None:
    for field in ("env", "volumeMounts"):
        for i, item in enumerate(objects(container.get(field), f"{path}.{field}")):
            text(item.get("name"), f"{path}.{field}[{i}].name")
    for i, port in enumerate(objects(container.get("ports"), f"{path}.ports")):
        for field in ("name", "protocol"):
            text(port.get(field), f"{path}.ports[{i}].{field}")
        if (
            not 0
            < integer(port.get("containerPort"), f"{path}.ports[{i}].containerPort", 0)
            < 65536
        ):
            raise InvalidJob(
                f"{path}.ports[{i}].containerPort", "is no port", hint="write 1 to 65535"
            )
    resources = mapping(container.get("resources"), f"{path}.resources")
    for field in ("limits", "requests"):
        for name, amount in mapping(resources.get(field), f"{path}.resources.{field}").items():
            if isinstance(amount, bool) or not isinstance(amount, str | int | float):
                where = f"{path}.resources.{field}.{name}"
                raise InvalidJob(where, "is not an amount", hint='write a number like "500m"')


def main_container(
    job_kind: JobKind, template: Raw, path: str, warnings: list[tuple[str, str]]
) -> str:
    """The name of the container that trains; every container must have a name and an image."""
    path = f"{path}.spec.containers"
    containers = (template.get("spec") or {}).get("containers")
    if not containers:
        raise InvalidJob(path, "is empty", hint=f"add a container named {job_kind.container!r}")
    container_names: list[str] = []
    for i, container in enumerate(containers):
        container_names.append(text(container.get("name"), f"{path}[{i}].name"))
        if not container_names[-1]:
            raise InvalidJob(
                f"{path}[{i}].name", "is missing", hint=f"write {job_kind.container!r}"
            )
        if not text(container.get("image"), f"{path}[{i}].image"):
            raise InvalidJob(f"{path}[{i}].image", "is missing", hint="name an image")
    if job_kind.container in container_names:
        return job_kind.container
    if not job_kind.port:
        return container_names[0]
    if len(container_names) == 1:
        message = (
            f"{path}[0] is named {container_names[0]!r}; it is taken as {job_kind.container!r}"
        )
        warnings.append(("UnusualContainerName", message))
        return container_names[0]
    raise InvalidJob(
        path,
        f"none of {', '.join(container_names)} is named {job_kind.container!r}",
        hint=f"name the container that trains {job_kind.container!r}",
    )


def port(job_kind: JobKind, template: Raw, container: str) -> int:
    """The port on which other replicas reach the container that trains."""
    main = next(c for c in template["spec"]["containers"] if c["name"] == container)
    for row in main.get("ports") or ():
        if row.get("name") == job_kind.port_name:
            return int(row["containerPort"])
    return job_kind.port
