"""Where a manifest says things, and that it says them once and by their names.

Called by `forms.read` before anything is read. Which fields a job has besides those that are read
is nobody's business here: versions differ, and others may keep their own in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.errors import InvalidJob
from muster.jobs.fields import in_this_case, mapping
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


_FIELDS = {kind: (*_SPEC, *_OWN.get(kind, ())) for kind in SHAPES}
_RUN_POLICY = (*_POLICY, "schedulingPolicy")


def _places(kind: str) -> list[str]:
    """The fields of spec that may hold replicas, in small letters, the kind's own first."""
    all_kinds = (shape.replicas for shape in SHAPES.values())
    single = ["template"] if kind == "MPIJob" else []
    fields = (SHAPES[kind].replicas, "replicaSpecs", *all_kinds, *single)
    return list(dict.fromkeys(field.lower() for field in fields))


_PLACES = {kind: _places(kind) for kind in SHAPES}


def check(kind: str, spec: Raw) -> None:
    """Refuse what would be passed over in silence."""
    _check_one_place(kind, spec)
    in_this_case(spec, _FIELDS[kind], "spec")
    policy = mapping(spec.get("runPolicy"), "spec.runPolicy")
    in_this_case(policy, _RUN_POLICY, "spec.runPolicy")
    path = "spec.runPolicy.schedulingPolicy"
    in_this_case(mapping(policy.get("schedulingPolicy"), path), _GANG, path)
    if kind == "PyTorchJob":
        path = "spec.elasticPolicy"
        in_this_case(mapping(spec.get("elasticPolicy"), path), _ELASTIC, path)
    _check_manager(kind, spec, policy)


def _check_one_place(kind: str, spec: Raw) -> None:
    """Replicas stand in one field, whatever kinds and versions have such fields."""
    places = _PLACES[kind]
    given = [k for k, value in spec.items() if value is not None and str(k).lower() in places]
    if len(given) > 1:
        own, other, *_ = sorted(given, key=lambda key: places.index(str(key).lower()))
        raise InvalidJob(f"spec.{other}", f"spec.{own} is given too", hint="keep one")


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
