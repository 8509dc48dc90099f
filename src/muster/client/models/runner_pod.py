"""The pod in which a model is used: the image, environment and volumes of the job that made it.

Models and their libraries belong to the job, so nothing of them is loaded anywhere else. The pod
mounts volumes for reading only, gets no token, requests no GPU, and ends by itself.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from muster.contract.exported_models import MODEL, MODEL_DIR, Version
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs.build.pod_templates import escape_literal
from muster.jobs.parse import parse_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.objects.meta import Raw
    from muster.client.models.catalog import PublishedModel

CONTAINER = "model"
_POD_FIELDS = (
    "nodeSelector", "tolerations", "imagePullSecrets", "securityContext", "serviceAccountName",
    "schedulerName", "runtimeClassName",
)  # fmt: skip
_CONTAINER_FIELDS = (
    "image", "imagePullPolicy", "env", "envFrom", "workingDir", "volumeMounts", "securityContext",
)  # fmt: skip
_FIND_PYTHON = 'exec "$(command -v python || command -v python3 || echo python3)" -c "$@"'
_NO_GPU = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": "-1"},
    {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "3"},
]


def python_command(program: str, *arguments: str) -> list[str]:
    """The command that runs a program of this package with the Python of the container."""
    text = Path(__file__).with_name(f"{program}.py").read_text(encoding="utf-8")
    return ["sh", "-c", _FIND_PYTHON, "sh", text, *arguments]


def version_folder(published: PublishedModel, version: Version) -> str:
    """The folder of a version in the containers of its job."""
    directory = published.model.directory
    if not directory.startswith("/") or ".." in version.path.split("/"):
        raise MusterError(f"the ConfigMap {published.key} does not describe a folder")
    return posixpath.normpath(posixpath.join(directory, version.path))


def runner_pod(
    published: PublishedModel, owner: Raw, command: Sequence[str], *, seconds: int
) -> Raw:
    """The pod that runs a command beside a model of the job (or pod) `owner`."""
    directory = published.model.directory
    for template, container, _, volume in mounts(owner, directory):
        if "emptyDir" in volume:
            raise MusterError(
                f"the model is in the emptyDir volume {volume['name']}, which only its pod has",
                hint="Export to a volume that outlives pods: --data CLAIM:/models",
            )
        return _pod(published, template["spec"], container, command, seconds)
    raise MusterError(f"no replica of {published.model.job.name} mounts {directory}")


def mounts(owner: Raw, directory: str) -> Iterator[tuple[Raw, Raw, Raw, Raw]]:
    """Every pod template and container that sees a directory, with its mount and its volume."""
    for template in templates(owner):
        spec: Raw = template.get("spec") or {}
        for container in spec.get("containers") or ():
            mount = _mount_of(container, directory)
            volumes = spec.get("volumes") or ()
            volume = next((v for v in volumes if mount and v["name"] == mount["name"]), None)
            if mount is not None and volume is not None:
                yield template, container, mount, volume


def templates(owner: Raw) -> Iterator[Raw]:
    """The pod templates of a job, the one that most likely exports models first."""
    kind = owner.get("kind", "")
    if kind == "Pod":
        yield owner
    elif kind in JOB_KIND_BY_NAME:
        job = parse_job(owner)
        first = job.chief_role
        specs = sorted(job.replica_specs, key=lambda row: row.role not in (first, "Worker"))
        yield from (row.template for row in specs)
    else:
        yield (owner.get("spec") or {}).get("template") or {}


def _mount_of(container: Raw, directory: str) -> Raw | None:
    """The mount that contains the directory; the innermost, as the container sees it."""
    inside = [
        mount
        for mount in container.get("volumeMounts") or ()
        if f"{directory.rstrip('/')}/".startswith(f"{mount['mountPath'].rstrip('/')}/")
    ]
    return max(inside, key=lambda mount: len(mount["mountPath"]), default=None)


def _pod(
    published: PublishedModel, spec: Raw, container: Raw, command: Sequence[str], seconds: int
) -> Raw:
    own = {name: container[name] for name in _CONTAINER_FIELDS if container.get(name)}
    volumes = spec.get("volumes") or []
    kept = {v["name"] for v in volumes if "persistentVolumeClaim" in v or "hostPath" in v}
    own["volumeMounts"] = [
        {**mount, "readOnly": True} if mount["name"] in kept else mount
        for mount in own["volumeMounts"]
    ]
    own["env"] = [*own.get("env", ()), *_NO_GPU]
    # Kubernetes would replace `$(NAME)` in the command, also in the user's input.
    own["command"] = [command[0], *map(escape_literal, command[1:])]
    name = published.model.job.name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"model-{name[:40].rstrip('-.')}-",
            "namespace": published.namespace,
            "labels": {f"{MODEL}-run": published.model.name[:63].rstrip("-._")},
        },
        "spec": {
            **{field: spec[field] for field in _POD_FIELDS if spec.get(field)},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "volumes": volumes,
            "containers": [{"name": CONTAINER, **own}],
        },
    }


def names_directory(owner: Raw, directory: str) -> bool:
    """Whether a job says itself that its models are there."""
    rows = [owner, *templates(owner)]
    return any(
        ((row.get("metadata") or {}).get("annotations") or {}).get(MODEL_DIR) == directory
        for row in rows
    )
