"""What only MPIJobs have: the form with a single template, slots, and how ranks are started.

The single-template form (of the first version, and of arena) becomes a Launcher and Workers made
from that template, with the sizes that its fields give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.errors import InvalidJob
from muster.jobs.fields import boolean, choice, integer, lookup, mapping, objects, text
from muster.jobs.job import Mpi
from muster.jobs.names import NVIDIA_GPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.jobs.job import ReplicaSpec

IMPLEMENTATIONS = ("OpenMPI", "Intel", "MPICH")
CREATION_POLICIES = ("AtStartup", "WaitForWorkersReady")
MASTER_NODE = "node-role.kubernetes.io/master"


def options(spec: Raw, replicas: tuple[ReplicaSpec, ...], *, single_template: bool) -> Mpi:
    """The MPI options of a job."""
    path = "spec.mpiImplementation"
    implementation = choice(spec.get("mpiImplementation"), path, IMPLEMENTATIONS) or "OpenMPI"
    path = "spec.launcherCreationPolicy"
    creation = choice(spec.get("launcherCreationPolicy"), path, CREATION_POLICIES)
    slots = integer(spec.get("slotsPerWorker"), "spec.slotsPerWorker", 0)
    if not slots and single_template:
        slots = _units(spec, replicas)
    return Mpi(
        slots=slots or 1,
        ssh=_folder(spec.get("sshAuthMountPath"), "spec.sshAuthMountPath"),
        implementation=implementation,
        wait_for_workers=single_template or creation == "WaitForWorkersReady",
        launcher_works=boolean(spec.get("runLauncherAsWorker"), "spec.runLauncherAsWorker"),
    )


def _folder(value: object, path: str) -> str:
    folder = text(value, path)
    if folder and (not folder.startswith("/") or ":" in folder):
        raise InvalidJob(path, f"{folder!r} is not absolute", hint="write a path like /root/.ssh")
    return folder


def main_named(spec: Raw, replicas: tuple[ReplicaSpec, ...]) -> tuple[ReplicaSpec, ...]:
    """The roles with the container that `mainContainer` names as the one that trains."""
    name = text(spec.get("mainContainer"), "spec.mainContainer")
    if not name:
        return replicas
    have = [r.role for r in replicas if any(c["name"] == name for c in r.spec["containers"])]
    if not have:
        raise InvalidJob(
            "spec.mainContainer", f"no container is named {name!r}", hint="name one of a template"
        )
    return tuple(replace(r, container=name) if r.role in have else r for r in replicas)


def with_defaults(
    spec: Raw, replicas: tuple[ReplicaSpec, ...], options: Mpi
) -> tuple[ReplicaSpec, ...]:
    """The roles; by ssh, a launcher without a restart policy restarts in place."""
    written = {
        str(role).lower(): body
        for role, body in (lookup(spec, "mpiReplicaSpecs", "spec") or {}).items()
    }
    restart = lookup(
        written.get("launcher") or {}, "restartPolicy", "spec.mpiReplicaSpecs.Launcher"
    )
    if not options.ssh or restart:
        return replicas
    return tuple(replace(r, restart="OnFailure") if r.role == "Launcher" else r for r in replicas)


def from_template(spec: Raw) -> Iterator[tuple[str, str, Raw]]:
    """The launcher and the workers of a job that has one template for both."""
    template = mapping(spec.get("template"), "spec.template")
    pod = mapping(template.get("spec"), "spec.template.spec")
    containers = objects(pod.get("containers"), "spec.template.spec.containers")
    workers, units = _size(spec)
    launcher = {**template, "spec": {**pod, "containers": [_bare(spec, c) for c in containers]}}
    if boolean(spec.get("launcherOnMaster"), "spec.launcherOnMaster"):
        launcher["spec"].update(_on_master(pod))
    if not boolean(spec.get("mountsOnLauncher"), "spec.mountsOnLauncher", default=True):
        launcher["spec"]["containers"] = [
            {key: value for key, value in c.items() if key != "volumeMounts"}
            for c in launcher["spec"]["containers"]
        ]
    worker = {
        **template,
        "spec": {
            **pod,
            "containers": [_sized(spec, i, c, units) for i, c in enumerate(containers)],
        },
    }
    yield "Launcher", "spec", {"template": launcher, "replicas": 1, "restartPolicy": "Never"}
    yield "Worker", "spec", {"template": worker, "replicas": workers, "restartPolicy": "Always"}


def _size(spec: Raw) -> tuple[int, int | None]:
    """The number of workers, and the processing units of each (None: as in the template)."""
    totals = [
        name for name in ("gpus", "processingUnits", "replicas") if spec.get(name) is not None
    ]
    if len(totals) != 1:
        given = " and ".join(f"spec.{name}" for name in totals) or "none of them"
        raise InvalidJob(
            "spec", f"{given} is given", hint="give one of gpus, processingUnits and replicas"
        )
    name = totals[0]
    total = integer(spec[name], f"spec.{name}", 0)
    if name == "replicas":
        return total, None
    per_name = "gpusPerNode" if name == "gpus" else "processingUnitsPerNode"
    per = integer(spec.get(per_name), f"spec.{per_name}", 0) or total or 1
    if total < per:
        return 1, total
    if total % per:
        raise InvalidJob(
            f"spec.{name}", f"{total} is not a multiple of {per_name} {per}", hint="change either"
        )
    return total // per, per


def _resource(spec: Raw) -> str:
    return text(spec.get("processingResourceType"), "spec.processingResourceType") or NVIDIA_GPU


def _sized(spec: Raw, number: int, container: Raw, units: int | None) -> Raw:
    if units is None:
        return container
    path = f"spec.template.spec.containers[{number}].resources"
    resources = mapping(container.get("resources"), path)
    limits = {**mapping(resources.get("limits"), f"{path}.limits"), _resource(spec): units}
    return {**container, "resources": {**resources, "limits": limits}}


def _bare(spec: Raw, container: Raw) -> Raw:
    """A launcher only starts the ranks: it gets `launcherResources` and no more."""
    bare = {key: value for key, value in container.items() if key != "resources"}
    resources = mapping(spec.get("launcherResources"), "spec.launcherResources")
    return {**bare, "resources": resources} if resources else bare


def _on_master(pod: Raw) -> Raw:
    path = "spec.template.spec"
    given = objects(pod.get("tolerations"), f"{path}.tolerations")
    tolerations = [*given, {"key": MASTER_NODE, "effect": "NoSchedule"}]
    term = {"matchExpressions": [{"key": MASTER_NODE, "operator": "Exists"}]}
    required = {"nodeSelectorTerms": [term]}
    affinity = {
        **mapping(pod.get("affinity"), f"{path}.affinity"),
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
    }
    return {"tolerations": tolerations, "affinity": affinity}


def _units(spec: Raw, replicas: tuple[ReplicaSpec, ...]) -> int:
    """The default slots of a worker: its processing units."""
    worker = next((role for role in replicas if role.role == "Worker"), None)
    if worker is None:
        return 1
    resources = worker.main.get("resources") or {}
    units = (resources.get("limits") or {}).get(_resource(spec))
    return int(units) if units is not None and str(units).isdigit() else 1
