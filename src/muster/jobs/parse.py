"""A job manifest of any kind and version -> the internal form of `job.py`.

Accepted forms: the array `replicaSpecs` with `tfReplicaType`; the maps `tfReplicaSpecs` and so on,
with roles in any letter case; policies directly under spec or inside `runPolicy` (the inner one
wins); an MPIJob with a single template. The form is recognised by its fields and never by
apiVersion, which the API server rewrites.

Of pod templates, only fields that Muster reads or adds to are checked. The API server checks the
others when the pod is created, and its message then appears in the job's status.

Promise: `parse_job` returns a Job that can be acted on, or raises InvalidJob with the path of the
field and what to write instead. It never changes its argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.meta import Key, Raw, read_timestamp
from muster.contract import job_fields
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME, JobKind
from muster.jobs import field_reader, names, run_policy
from muster.jobs.field_reader import Section
from muster.jobs.frameworks import mpi_spec, pytorch_spec
from muster.jobs.job import Job, ReplicaSpec, RunPolicy
from muster.jobs.job_status import decode_status

if TYPE_CHECKING:
    from collections.abc import Iterator


RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
SUCCESS_POLICIES = ("AllWorkers",)
SUCCESS_POLICY_HINT = "write AllWorkers or leave it out"
_REPLICA = (*job_fields.ROLE, *job_fields.ARRAY_ROLE)
MAX_REPLICAS = 10_000
"""Replicas of one job: every pod lists all others, and a typo must not cost other jobs."""
_WrittenRole = tuple[str, Section]
"""A role as written, and its body."""
_LISTS = ("volumes", "initContainers", "tolerations")
_TEXTS = ("schedulerName", "priorityClassName", "serviceAccountName", "serviceAccount")


def parse_job(raw: Raw) -> Job:
    """The job that this manifest describes."""
    kind = str(raw.get("kind") or "")
    job_kind = JOB_KIND_BY_NAME.get(kind)
    if job_kind is None:
        raise InvalidJob(
            "kind", f"{kind!r} is not a job", hint=f"use one of {', '.join(JOB_KIND_BY_NAME)}"
        )
    spec = Section(raw.get("spec"), "spec")
    field_reader.check_fields(kind, spec)
    array = spec.lookup("replicaSpecs")
    single = _has_single_template(kind, spec)
    if array is not None and kind == "TFJob":
        roles: Iterator[_WrittenRole] = _from_array(array)
    elif single:  # the first version of MPIJob, and arena's
        roles = mpi_spec.from_template(spec)
    else:
        roles = _from_map(spec, job_kind)
    first_version = is_first_version(kind, spec)
    parsed = _replica_specs(job_kind, roles, honour_template=first_version)
    job = _assemble(raw, spec, job_kind, run_policy.read(spec, first_version=first_version), parsed)
    if array is not None:
        job = replace(job, has_phases=True, chief=_termination(spec, job))
    if kind == "MPIJob":
        replicas = mpi_spec.main_named(spec, job.replica_specs)
        options = mpi_spec.options(spec, replicas, single_template=single)
        job = replace(
            job, replica_specs=mpi_spec.with_defaults(spec, replicas, options), mpi=options
        )
    _check(job)
    if kind == "PyTorchJob":
        job = replace(job, warnings=(*job.warnings, *pytorch_spec.check(job)))
    return job


def parse_valid(raw: Raw) -> Job | None:
    """The job that this manifest describes; None if it is invalid."""
    try:
        return parse_job(raw)
    except InvalidJob:
        return None


def is_first_version(kind: str, spec: Section) -> bool:
    """Whether a job has the form of the first version: an array of roles, or one template."""
    return spec.lookup("replicaSpecs") is not None or _has_single_template(kind, spec)


def _has_single_template(kind: str, spec: Section) -> bool:
    """Whether this is an MPIJob with one template for launcher and workers."""
    return kind == "MPIJob" and spec.lookup("mpiReplicaSpecs") is None and "template" in spec.raw


def _from_array(array: object) -> Iterator[_WrittenRole]:
    for body in Section({"replicaSpecs": array}, "spec").sections("replicaSpecs"):
        role = body.canonical(_REPLICA)
        yield role.text("tfReplicaType") or "Chief", role


def _from_map(spec: Section, job_kind: JobKind) -> Iterator[_WrittenRole]:
    field = job_kind.replicas_field
    written = spec.lookup(field)
    if written is None:
        raise spec.error(field, "is missing", _replicas_hint(spec.raw, job_kind))
    roles = Section(written, f"spec.{field}")
    for role in roles.raw:
        yield str(role), roles.section(role).canonical(_REPLICA)


def _replicas_hint(spec: Raw, job_kind: JobKind) -> str:
    """The hint for missing replicas; their field may be misspelt."""
    import difflib  # needed for this error only; every command would pay for it

    fields = [str(key).lower() for key in spec]
    matches = difflib.get_close_matches(job_kind.replicas_field.lower(), fields, 1)
    written = next((key for key in spec if str(key).lower() in matches), None)
    if written is not None:
        return f"write {job_kind.replicas_field} instead of {written}"
    return f"write spec.{job_kind.replicas_field}.{job_kind.roles[-1]}.template"


def _replica_specs(
    job_kind: JobKind, written: Iterator[_WrittenRole], *, honour_template: bool
) -> tuple[tuple[ReplicaSpec, ...], tuple[tuple[str, str], ...]]:
    specs: dict[str, ReplicaSpec] = {}
    warnings: list[tuple[str, str]] = []
    for role_written, body in written:
        role = job_kind.role(role_written)
        if role is None:
            hint = f"use one of {', '.join(job_kind.roles)}"
            raise InvalidJob(body.path, f"unknown role {role_written!r}", hint=hint)
        if role in specs:
            hint = f"join it with {specs[role].path}"
            raise InvalidJob(body.path, f"the role {role} appears twice", hint=hint)
        specs[role] = _replica(job_kind, role, body, honour_template, warnings)
    if not specs:
        raise InvalidJob(
            f"spec.{job_kind.replicas_field}",
            "has no roles",
            hint=f"add {job_kind.roles[-1]} with a template",
        )
    ordered = sorted(specs.values(), key=lambda spec: job_kind.roles.index(spec.role))
    return tuple(ordered), tuple(warnings)


def _replica(
    job_kind: JobKind,
    role: str,
    body: Section,
    honour_template: bool,
    warnings: list[tuple[str, str]],
) -> ReplicaSpec:
    count, template = body.integer("replicas", 1), body.section("template")
    _check_template(template)
    container = _main_container(job_kind, template, warnings)
    restart = body.choice("restartPolicy", RESTART_POLICIES)
    inner = template.section("spec").text("restartPolicy")
    if honour_template:
        # The first version had no other restart policy. An empty one is Always in a pod.
        restart = restart or inner or "Always"
    restart = restart or job_kind.restart
    if not honour_template and inner and inner != restart:
        message = (
            f"{template.path}.spec.restartPolicy {inner} is not used; {restart} is. "
            f"Write it as {body.path}.restartPolicy"
        )
        warnings.append(("SetPodTemplateRestartPolicy", message))
    port = body.integer("tfPort", most=65535) or _port(job_kind, container)
    name = container.text("name")
    return ReplicaSpec(role, count, template.raw, restart, port, name, body.path)


def _assemble(
    raw: Raw,
    spec: Section,
    job_kind: JobKind,
    policy: RunPolicy,
    written: tuple[tuple[ReplicaSpec, ...], tuple[tuple[str, str], ...]],
) -> Job:
    replicas, warnings = written
    metadata = Section(raw.get("metadata"), "metadata")
    meta = metadata.raw
    if scheduler := spec.text("schedulerName"):
        replicas = tuple(_scheduled_by(replica_spec, scheduler) for replica_spec in replicas)
    return Job(
        kind=job_kind.kind,
        key=Key(str(meta.get("namespace") or ""), metadata.text("name")),
        uid=str(meta.get("uid") or ""),
        generation=int(meta.get("generation") or 0),
        created=read_timestamp(meta.get("creationTimestamp")),
        deleting=bool(meta.get("deletionTimestamp")),
        labels=metadata.texts("labels"),
        annotations=metadata.texts("annotations"),
        replica_specs=replicas,
        policy=policy,
        spec=spec.raw,
        status=decode_status(raw.get("status")),
        success_policy=_success_policy(spec),
        dynamic_workers=spec.boolean("enableDynamicWorker"),
        warnings=warnings,
    )


def _scheduled_by(replica_spec: ReplicaSpec, scheduler: str) -> ReplicaSpec:
    template = {**replica_spec.template, "spec": {**replica_spec.spec, "schedulerName": scheduler}}
    return replace(replica_spec, template=template)


def _success_policy(spec: Section) -> str:
    policy = spec.text("successPolicy")
    if policy not in ("", *SUCCESS_POLICIES):
        raise spec.error("successPolicy", f"{policy!r} is unknown", SUCCESS_POLICY_HINT)
    return policy


def _termination(spec: Section, job: Job) -> tuple[str, int] | None:
    """The replica that `terminationPolicy.chief` names, if it names one."""
    chief = spec.section("terminationPolicy").section("chief")
    if not chief.raw:
        return None
    written = chief.text("replicaName") or "Master"
    index = chief.integer("replicaIndex")
    role = job.job_kind.role(written)
    # This policy is of the first version, in which the chief was called Master.
    if role == "Master" and not job.replica_spec("Master") and job.replica_spec("Chief"):
        role = "Chief"
    if role is None or index >= job.count(role):
        message = f"there is no replica {written} {index}"
        raise InvalidJob(chief.path, message, hint="name one of spec.replicaSpecs")
    return (role, index)


def _check(job: Job) -> None:
    """Raise InvalidJob if the parts of a job contradict each other."""
    job_kind = job.job_kind
    chiefs = [spec for spec in job.replica_specs if spec.role in job_kind.chief_roles]
    if len(chiefs) > 1:
        raise InvalidJob(
            chiefs[1].path,
            f"there is a {chiefs[0].role} already",
            hint=f"keep one of {' and '.join(job_kind.chief_roles)}",
        )
    for role in job_kind.required:
        if not job.replica_spec(role):
            path = f"spec.{job_kind.replicas_field}.{role}"
            raise InvalidJob(path, "is missing", hint=f"a {job_kind.kind} needs a {role}")
    for spec in job.replica_specs:
        if spec.role in job_kind.single_roles and spec.count != 1:
            raise InvalidJob(
                f"{spec.path}.replicas",
                f"is {spec.count}; a {job_kind.kind} has exactly one {spec.role}",
                hint="write 1 or leave it out",
            )
        if spec.role in job_kind.chief_roles and spec.count > 1:
            raise InvalidJob(
                f"{spec.path}.replicas",
                f"is {spec.count}; a {job_kind.kind} has one {spec.role}",
                hint="write 1 or leave it out; others are workers",
            )
    if job.total > MAX_REPLICAS:
        largest = max(job.replica_specs, key=lambda spec: spec.count)
        raise InvalidJob(
            f"{largest.path}.replicas",
            f"is {largest.count}; the job would have {job.total} replicas",
            hint=f"a job has at most {MAX_REPLICAS} replicas in all",
        )
    # The last replica of a role has its longest name.
    derived = [
        names.replica(job.name, spec.role, max(spec.count - 1, 0)) for spec in job.replica_specs
    ]
    if job.replica_spec("Launcher"):
        derived.append(names.launcher_example(job.name))
    names.check(job.name, derived)


def _check_template(template: Section) -> None:
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
            raise port.error("containerPort", "is not a port", "write 1 to 65535")
    resources = container.section("resources")
    for field in ("limits", "requests"):
        amounts = resources.section(field)
        for name, amount in amounts.raw.items():
            if isinstance(amount, bool) or not isinstance(amount, str | int | float):
                raise amounts.error(name, "is not an amount", 'write a number like "500m"')


def _main_container(
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


def _port(job_kind: JobKind, container: Section) -> int:
    """The port on which other replicas reach the container that trains."""
    for row in container.sections("ports"):
        if row.text("name") == job_kind.port_name:
            return row.integer("containerPort")
    return job_kind.port
