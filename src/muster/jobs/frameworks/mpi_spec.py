"""The fields of MPIJobs only: the single template, the slots, and how ranks are started.

The single-template form (of the first version, and of arena) becomes a Launcher and Workers made
from that template, with the sizes that its fields give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.annotation_values import read_integer
from muster.contract.job_fields import InvalidJob
from muster.jobs.field_reader import Section
from muster.jobs.job import Mpi, ReplicaSpec
from muster.jobs.names import NVIDIA_GPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw

IMPLEMENTATIONS = ("OpenMPI", "Intel", "MPICH")
CREATION_POLICIES = ("AtStartup", "WaitForWorkersReady")
MASTER_NODE = "node-role.kubernetes.io/master"


def options(spec: Section, replicas: tuple[ReplicaSpec, ...], *, single_template: bool) -> Mpi:
    """The MPI options of a job."""
    creation = spec.choice("launcherCreationPolicy", CREATION_POLICIES)
    slots = spec.integer("slotsPerWorker")
    ssh = spec.text("sshAuthMountPath")
    if ssh and (not ssh.startswith("/") or ":" in ssh):  # Kubernetes' rule for mountPath
        hint = "write a path like /root/.ssh"
        raise spec.error("sshAuthMountPath", f"{ssh!r} is not absolute", hint)
    # Of the versions that start ranks by exec, only v1 has no backoffLimit directly under spec: the
    # CRD writes it into jobs of the older ones.
    launcher_is_job = bool(ssh) or single_template or spec.has("backoffLimit")
    if not slots and single_template:
        slots = _units(spec, replicas)
    return Mpi(
        slots=slots or 1,
        ssh=ssh,
        implementation=spec.choice("mpiImplementation", IMPLEMENTATIONS) or "OpenMPI",
        wait_for_workers=single_template or creation == "WaitForWorkersReady",
        launcher_works=spec.boolean("runLauncherAsWorker")
        or (not launcher_is_job and _has_gpu_launcher(replicas)),
        launcher_is_job=launcher_is_job,
    )


def _has_gpu_launcher(replicas: tuple[ReplicaSpec, ...]) -> bool:
    """Whether a container of the launcher has a limit of GPUs, of any vendor."""
    containers = [c for r in replicas if r.role == "Launcher" for c in r.spec["containers"]]
    limits = ((c.get("resources") or {}).get("limits") or {} for c in containers)
    return any("gpu" in resource for row in limits for resource in row)


def main_named(spec: Section, replicas: tuple[ReplicaSpec, ...]) -> tuple[ReplicaSpec, ...]:
    """The roles; the container that `mainContainer` names is the container that trains."""
    name = spec.text("mainContainer")
    if not name:
        return replicas
    roles = [r.role for r in replicas if any(c["name"] == name for c in r.spec["containers"])]
    if not roles:
        message = f"no container is named {name!r}"
        raise spec.error("mainContainer", message, "name one of a template")
    return tuple(replace(r, container=name) if r.role in roles else r for r in replicas)


def with_defaults(
    spec: Section, replicas: tuple[ReplicaSpec, ...], options: Mpi
) -> tuple[ReplicaSpec, ...]:
    """The roles; with ssh, a launcher without a restart policy restarts in place."""
    # As in v2beta1, the version that introduced ssh.
    roles = Section(spec.lookup("mpiReplicaSpecs"), "spec.mpiReplicaSpecs")
    launcher = Section(roles.lookup("Launcher"), f"{roles.path}.Launcher")
    if not options.ssh or launcher.lookup("restartPolicy"):
        return replicas
    return tuple(replace(r, restart="OnFailure") if r.role == "Launcher" else r for r in replicas)


def from_template(spec: Section) -> Iterator[tuple[str, Section]]:
    """The launcher and the workers of a job that has one template for both."""
    template = spec.section("template")
    pod = template.section("spec")
    containers = pod.sections("containers")
    workers, units = _size(spec)
    launcher = {**pod.raw, "containers": [_bare(spec, container.raw) for container in containers]}
    if spec.boolean("launcherOnMaster"):
        launcher |= _on_master(pod)
    if not spec.boolean("mountsOnLauncher", default=True):
        launcher["containers"] = [
            {key: value for key, value in container.items() if key != "volumeMounts"}
            for container in launcher["containers"]
        ]
    worker = {**pod.raw, "containers": [_sized(spec, c, units) for c in containers]}
    yield "Launcher", _role(template, launcher, 1, "Never")
    yield "Worker", _role(template, worker, workers, "Always")


def _role(template: Section, pod: Raw, replicas: int, restart: str) -> Section:
    body = {"template": {**template.raw, "spec": pod}, "replicas": replicas}
    return Section({**body, "restartPolicy": restart}, "spec")


def _size(spec: Section) -> tuple[int, int | None]:
    """The number of workers, and the processing units of each (None: as in the template)."""
    totals = [name for name in ("gpus", "processingUnits", "replicas") if spec.has(name)]
    if len(totals) != 1:
        fields = " and ".join(f"spec.{name}" for name in totals) or "none of them"
        raise InvalidJob(
            "spec", f"{fields} is given", hint="give one of gpus, processingUnits and replicas"
        )
    name = totals[0]
    total = spec.integer(name)
    if name == "replicas":
        return total, None
    per_name = "gpusPerNode" if name == "gpus" else "processingUnitsPerNode"
    per = spec.integer(per_name) or total or 1
    if total < per:  # one worker is enough, with fewer units than a node has
        return 1, total
    if total % per:
        raise spec.error(name, f"{total} is not a multiple of {per_name} {per}", "change either")
    return total // per, per


def _resource(spec: Section) -> str:
    return spec.text("processingResourceType") or NVIDIA_GPU


def _sized(spec: Section, container: Section, units: int | None) -> Raw:
    if units is None:
        return container.raw
    resources = container.section("resources")
    limits = {**resources.section("limits").raw, _resource(spec): units}
    return {**container.raw, "resources": {**resources.raw, "limits": limits}}


def _bare(spec: Section, container: Raw) -> Raw:
    """A launcher only starts the ranks: it gets `launcherResources` and no more."""
    bare = {key: value for key, value in container.items() if key != "resources"}
    resources = spec.section("launcherResources").raw
    return {**bare, "resources": resources} if resources else bare


def _on_master(pod: Section) -> Raw:
    """The fields that send a pod to a master node."""
    pod.sections("tolerations")  # its items must be objects
    toleration = {"key": MASTER_NODE, "effect": "NoSchedule"}
    term = {"matchExpressions": [{"key": MASTER_NODE, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {
        "tolerations": [*pod.sequence("tolerations"), toleration],
        "affinity": {**pod.section("affinity").raw, "nodeAffinity": required},
    }


def _units(spec: Section, replicas: tuple[ReplicaSpec, ...]) -> int:
    """The default slots of a worker: its processing units."""
    worker = next((role for role in replicas if role.role == "Worker"), None)
    if worker is None:
        return 1
    resources = worker.main.get("resources") or {}
    units = (resources.get("limits") or {}).get(_resource(spec))
    number = read_integer(str(units))
    return 1 if number is None else number
