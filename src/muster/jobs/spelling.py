"""Where a manifest says things, and that it says them once and by their names.

Called by `forms.read` before anything is read. Which fields a job has besides those that are read
is nobody's business here: versions differ, and others may keep their own in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.errors import InvalidJob
from muster.jobs.fields import in_this_case, mapping, spelt
from muster.jobs.job import ELSEWHERE, SERVED_BY_US
from muster.jobs.shapes import SHAPES

if TYPE_CHECKING:
    from muster.api.meta import Raw

_POLICY = (
    "cleanPodPolicy",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "backoffLimit",
    "suspend",
    "managedBy",
)
_SPEC = (*_POLICY, "runPolicy", "schedulerName", "cleanupPodPolicy")
_GANG = ("minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds")
_ELASTIC = (
    *("minReplicas", "maxReplicas", "rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf"),
    *("standalone", "nProcPerNode", "maxRestarts", "metrics"),
)
_OWN = {
    "TFJob": ("successPolicy", "enableDynamicWorker", "terminationPolicy"),
    "PyTorchJob": ("elasticPolicy", "nprocPerNode"),
    "MPIJob": (
        *("slotsPerWorker", "mainContainer", "sshAuthMountPath", "mpiImplementation"),
        *("launcherCreationPolicy", "runLauncherAsWorker", "template", "replicas", "gpus"),
        *("gpusPerNode", "processingUnits", "processingUnitsPerNode", "processingResourceType"),
        *("launcherOnMaster", "launcherResources", "mountsOnLauncher"),
    ),
}
"""Fields of spec that one kind reads. That of its replicas is read in any letter case."""


def check(kind: str, spec: Raw) -> None:
    """Refuse what would be passed over in silence."""
    _check_one_place(kind, spec)
    in_this_case(spec, (*_SPEC, *_OWN.get(kind, ())), "spec")
    policy = mapping(spec.get("runPolicy"), "spec.runPolicy")
    in_this_case(policy, (*_POLICY, "schedulingPolicy"), "spec.runPolicy")
    path = "spec.runPolicy.schedulingPolicy"
    in_this_case(mapping(policy.get("schedulingPolicy"), path), _GANG, path)
    if kind == "PyTorchJob":
        path = "spec.elasticPolicy"
        in_this_case(mapping(spec.get("elasticPolicy"), path), _ELASTIC, path)
    _check_manager(kind, spec, policy)


def _check_one_place(kind: str, spec: Raw) -> None:
    """Replicas stand in one field, whatever kinds and versions have such fields."""
    own = SHAPES[kind].replicas
    fields = [own, "replicaSpecs", *(shape.replicas for shape in SHAPES.values())]
    if kind == "MPIJob":
        fields.append("template")
    given = list(dict.fromkeys(key for field in fields for key in spelt(spec, field)))
    if len(given) > 1:
        raise InvalidJob(f"spec.{given[1]}", f"spec.{given[0]} is given too", hint="keep one")


def _check_manager(kind: str, spec: Raw, policy: Raw) -> None:
    nested = policy.get("managedBy") is not None
    manager = policy["managedBy"] if nested else spec.get("managedBy")
    ours = [name for name in SERVED_BY_US if kind == "MPIJob" or not name.endswith("/mpi-operator")]
    if isinstance(manager, str) and manager not in (*ours, ELSEWHERE):
        known = " or ".join([*(name for name in ours if name), ELSEWHERE])
        raise InvalidJob(
            "spec.runPolicy.managedBy" if nested else "spec.managedBy",
            f"{manager!r} is unknown",
            hint=f"use {known}, or leave it out",
        )
