"""Reading fields of a manifest, with errors that name the path.

Each reader takes a value and its path and returns the value in its type, or raises InvalidJob.
`check_fields` rejects fields that would be ignored silently: known fields in another letter case,
and replicas in two places. Unknown fields are accepted: versions differ, and other tools may keep
their own fields in a job.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from muster.errors import InvalidJob
from muster.jobs.job import MANAGED_BY_MUSTER, MULTIKUEUE
from muster.jobs.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from muster.api.meta import Raw


def spellings(raw: Raw, name: str) -> list[str]:
    """The keys that spell this field, in any letter case; the exact spelling comes first."""
    wanted = name.lower()
    keys = [key for key in raw if str(key).lower() == wanted and raw[key] is not None]
    return sorted(keys, key=lambda key: key != name)


def lookup(raw: Raw, name: str, path: str) -> Any:
    """The field of that name in any letter case; InvalidJob if it is there twice."""
    keys = spellings(raw, name)
    if len(keys) > 1:
        raise InvalidJob(
            f"{path}.{keys[1]}", f"{path}.{keys[0]} is given too", hint=f"keep one, as {name}"
        )
    return raw[keys[0]] if keys else None


def refuse_other_case(raw: Raw, names: tuple[str, ...], path: str) -> None:
    """Raise InvalidJob for one of these fields in another letter case: it would be ignored."""
    known = _by_lower_case(names)
    for key, value in raw.items():
        name = known.get(str(key).lower(), key)
        if name != key and value is not None:
            raise InvalidJob(f"{path}.{key}", "is no field", hint=f"write {name}")


@lru_cache(maxsize=32)
def _by_lower_case(names: tuple[str, ...]) -> dict[str, str]:
    return {name.lower(): name for name in names}


def mapping(value: object, path: str) -> Raw:
    """An object; a missing one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidJob(path, f"is {_a(value)}, not an object", hint="write its fields below it")
    return value


def sequence(value: object, path: str) -> list[Any]:
    """A list; a missing one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidJob(path, f"is {_a(value)}, not a list", hint="begin each item with '- '")
    return value


def objects(value: object, path: str) -> list[Raw]:
    """A list of objects; a missing list is empty, a missing item an error."""
    items = sequence(value, path)
    for i, item in enumerate(items):
        if item is None:
            raise InvalidJob(f"{path}[{i}]", "is empty", hint="write its fields or remove it")
        mapping(item, f"{path}[{i}]")
    return items


def text(value: object, path: str) -> str:
    """A string; a missing one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidJob(path, f"is {_a(value)}, not text", hint=f'write "{value}"')
    return value


def choice(value: object, path: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed words; a missing one is empty."""
    word = text(value, path)
    if word and word not in allowed:
        raise InvalidJob(path, f"{word!r} is unknown", hint=f"use {', '.join(allowed)}")
    return word


def boolean(value: object, path: str, default: bool = False) -> bool:
    """True or false, but not as text."""
    if value is None:
        return default
    if not isinstance(value, bool):
        word = str(value).strip().lower()
        hint = (
            f"write {word} without quotes" if word in ("true", "false") else "write true or false"
        )
        raise InvalidJob(path, f"is {_a(value)}, not true or false", hint=hint)
    return value


def integer(value: object, path: str, default: int, most: int = 2**31 - 1) -> int:
    """A whole number from 0 to `most`."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        number = value.strip() if isinstance(value, str) else ""
        hint = (
            f"write {number} without quotes" if number.isdecimal() else "write a number such as 1"
        )
        raise InvalidJob(path, f"is {_a(value)}, not a whole number", hint=hint)
    if value < 0:
        raise InvalidJob(path, f"is {value}", hint="write 0 or more")
    if value > most:
        raise InvalidJob(path, f"is {value}", hint=f"write at most {most}")
    return value


_WORDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a fraction",
    list: "a list",
    dict: "an object",
}


def _a(value: object) -> str:
    return _WORDS.get(type(value), "something else")


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
"""Fields of spec that one kind reads, without that of its replicas (any letter case)."""


_FIELDS = {kind: (*_SPEC, *_OWN.get(kind, ())) for kind in JOB_KIND_BY_NAME}
_RUN_POLICY = (*_POLICY, "schedulingPolicy")


def _places(kind: str) -> list[str]:
    """The fields of spec that may hold replicas, in lower case, the kind's own first."""
    all_kinds = (job_kind.replicas_field for job_kind in JOB_KIND_BY_NAME.values())
    single = ["template"] if kind == "MPIJob" else []
    fields = (JOB_KIND_BY_NAME[kind].replicas_field, "replicaSpecs", *all_kinds, *single)
    return list(dict.fromkeys(field.lower() for field in fields))


_PLACES = {kind: _places(kind) for kind in JOB_KIND_BY_NAME}


def check_fields(kind: str, spec: Raw) -> None:
    """Raise InvalidJob for fields that would be ignored silently."""
    _check_one_place(kind, spec)
    refuse_other_case(spec, _FIELDS[kind], "spec")
    policy = mapping(spec.get("runPolicy"), "spec.runPolicy")
    refuse_other_case(policy, _RUN_POLICY, "spec.runPolicy")
    path = "spec.runPolicy.schedulingPolicy"
    refuse_other_case(mapping(policy.get("schedulingPolicy"), path), _GANG, path)
    if kind == "PyTorchJob":
        path = "spec.elasticPolicy"
        refuse_other_case(mapping(spec.get("elasticPolicy"), path), _ELASTIC, path)
    _check_manager(kind, spec, policy)


def _check_one_place(kind: str, spec: Raw) -> None:
    """Replicas may be in one field only, of whatever kind or version."""
    places = _PLACES[kind]
    given = [k for k, value in spec.items() if value is not None and str(k).lower() in places]
    if len(given) > 1:
        own, other, *_ = sorted(given, key=lambda key: places.index(str(key).lower()))
        raise InvalidJob(f"spec.{other}", f"spec.{own} is given too", hint="keep one")


def _check_manager(kind: str, spec: Raw, policy: Raw) -> None:
    nested = policy.get("managedBy") is not None
    manager = policy["managedBy"] if nested else spec.get("managedBy")
    ours = [
        name for name in MANAGED_BY_MUSTER if kind == "MPIJob" or not name.endswith("/mpi-operator")
    ]
    if isinstance(manager, str) and manager not in (*ours, MULTIKUEUE):
        known = " or ".join([*(name for name in ours if name), MULTIKUEUE])
        raise InvalidJob(
            "spec.runPolicy.managedBy" if nested else "spec.managedBy",
            f"{manager!r} is unknown",
            hint=f"use {known}, or leave it out",
        )
