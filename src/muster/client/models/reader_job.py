"""The small pod that reads the model directory of a job in its volume, and never writes there.

On the local cluster the node sees the volumes of pods and publishes models by itself. Elsewhere
only a pod can mount a volume: so a batch Job with Muster's image mounts the one volume that has the
directory, for reading, and prints the versions. It is a Job and not a bare pod because the cluster
itself removes a Job whose time is over, even if whoever started it has died. The
image is that of the installation.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import CLUSTER_ROLE_BINDINGS, DEPLOYMENTS
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.request_errors import Forbidden, NotFound
from muster.client.models import runner_pod
from muster.contract.exported_models import MODEL_DIR, MODEL_NAME, Maker, directory_of
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.client.client import Client


CONTAINER = "reader"
LABEL = "muster.dev/model-reader"
DEADLINE_SECONDS = 120
_TTL_SECONDS = 60
_POD_FIELDS = ("nodeSelector", "tolerations", "imagePullSecrets")
_USER_FIELDS = ("runAsUser", "runAsGroup", "seLinuxOptions")
"""The fields of a security context by which the files of a job can be read."""


class Place(NamedTuple):
    """A model directory, and the volume that has it."""

    maker: Maker
    name: str
    """The name of the model."""
    directory: str
    pod_spec: Raw
    """Of the replica that mounts the volume."""
    container: Raw
    mount: Raw
    volume: Raw


def find_place(job: Raw) -> Place:
    """Where a job exports models; UsageError or MusterError says why no pod could read them."""
    key, directory = key_of(job), posixpath.normpath(directory_of(job) or ".")
    if not directory.startswith("/"):
        raise UsageError(
            f"the job {key.name} does not say where it exports models",
            hint=f"`submit --model-dir DIR` does, or the annotation {MODEL_DIR}.",
        )
    maker = Maker(job["apiVersion"], job["kind"], key.name, job["metadata"].get("uid", ""))
    for template, container, mount, volume in runner_pod.mounts(job, directory):
        _refuse_unreadable(mount, volume)
        labels = (template.get("metadata") or {}).get("labels") or {}
        name = str(labels.get(MODEL_NAME) or key.name)
        return Place(maker, name, directory, template["spec"], container, mount, volume)
    raise MusterError(f"no replica of {key.name} mounts {directory}, so its models cannot be read")


def _refuse_unreadable(mount: Raw, volume: Raw) -> None:
    if "emptyDir" in volume:
        raise MusterError(
            f"the models are in the emptyDir volume {volume['name']}, which only its pod has",
            hint="Export to a volume that outlives pods: --data CLAIM:/models",
        )
    if mount.get("subPathExpr"):
        raise MusterError(
            f"the volume {volume['name']} has a subPathExpr, which only its pod knows"
        )


def pod_with_volume(place: Place, pods: Iterable[Raw]) -> Raw | None:
    """The live pod that has the volume: many volumes can be attached to one node at a time."""
    live = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and _has_volume(pod, place)
    ]
    return min(live, key=_node_order, default=None)


def _node_order(pod: Raw) -> tuple[bool, str]:
    """Running pods first: one that does not run may wait for the volume itself."""
    return (pod.get("status") or {}).get("phase") != "Running", pod["spec"]["nodeName"]


def _has_volume(pod: Raw, place: Place) -> bool:
    """Whether a pod has the claim; of other volumes, only the job's own pods tell the node."""
    source = _source(place.volume)
    if "persistentVolumeClaim" not in source:
        labels = pod["metadata"].get("labels") or {}
        own = labels.get(names.JOB) == place.maker.name
        return own and any(_source(row) == source for row in pod["spec"].get("volumes") or ())
    claim = source["persistentVolumeClaim"]["claimName"]
    claims = (row.get("persistentVolumeClaim") or {} for row in pod["spec"].get("volumes") or ())
    return any(row.get("claimName") == claim for row in claims)


def _source(volume: Raw) -> Raw:
    return {name: value for name, value in volume.items() if name != "name"}


def name_of(place: Place) -> str:
    """One name for each job: two readers of one job do not run at the same time."""
    name = f"model-reader-{place.maker.kind.lower()}-{place.maker.name}"
    if len(name) <= 52:  # the names of its pods are longer
        return name
    return f"{name[:41].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def reader_job(place: Place, namespace: str, image: str, beside: Raw | None = None) -> Raw:
    """The batch Job that prints the versions in a directory, on the node of the pod `beside`."""
    job = place.maker
    labels = {LABEL: job.name[:63].rstrip("-._")}
    owner = {"apiVersion": job.api_version, "kind": job.kind, "name": job.name, "uid": job.uid}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_of(place),
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": _TTL_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": _pod(place, image, beside)},
        },
    }


def _pod(place: Place, image: str, beside: Raw | None) -> Raw:
    spec = place.pod_spec
    if beside is not None:  # its node is the only one, so its tolerations count and no selector
        spec = {**spec, "nodeSelector": {}, "tolerations": beside["spec"].get("tolerations")}
    pod: Raw = {
        **{field: spec[field] for field in _POD_FIELDS if spec.get(field)},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": _pod_security(place),
        "volumes": [place.volume],
        "containers": [_container(place, image)],
    }
    if beside is not None:
        node = beside["spec"]["nodeName"]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        pod["affinity"] = {"nodeAffinity": required}
    return pod


def _pod_security(place: Place) -> Raw:
    """The user of the job's container, who can read its files; else the user of the image."""
    pod = place.pod_spec.get("securityContext") or {}
    own = {**pod, **(place.container.get("securityContext") or {})}
    context: Raw = {name: own[name] for name in _USER_FIELDS if name in own}
    context |= {name: pod[name] for name in ("fsGroup", "supplementalGroups") if name in pod}
    if "fsGroup" in context:
        context["fsGroupChangePolicy"] = "OnRootMismatch"  # never walk through a large volume
    context["runAsNonRoot"] = own.get("runAsUser") != 0
    context["seccompProfile"] = {"type": "RuntimeDefault"}
    return context


def _container(place: Place, image: str) -> Raw:
    mount = place.mount
    path = posixpath.relpath(place.directory, posixpath.normpath(mount["mountPath"]))
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["muster", "models", "print-versions", mount["mountPath"], path],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "volumeMounts": [{**mount, "readOnly": True}],
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


_COMPONENTS = ("muster-scheduler", "muster-operator")
"""The names of Deployments, service accounts and ClusterRoleBindings of an installation."""


async def reader_image(client: Client, named: str = "", *, default: str = "") -> str:
    """The image that the user has named, else that of the installation, else the default."""
    image = named or await _installed_image(client) or default
    if not image:
        raise UsageError(
            "the image of Muster is not known, and only a pod with it can read the volume",
            hint="Name it, the one that `muster install` was given: `arena models read JOB --image "
            "IMAGE`, or `muster dashboard --reader-image IMAGE`.",
        )
    return image


async def _installed_image(client: Client) -> str:
    """The image of the installation; empty if there is none, or if the user may not look for it.

    Anybody can give a Deployment Muster's name and labels in their own namespace, and the
    reader runs with the user's rights. Only administrators write ClusterRoleBindings, so these
    say in which namespace Muster is.
    """
    for name in _COMPONENTS:
        with contextlib.suppress(Forbidden, NotFound):
            binding = await client.get(CLUSTER_ROLE_BINDINGS, Key("", name))
            for subject in binding.get("subjects") or ():
                if subject["kind"] == "ServiceAccount" and subject["name"] == name:
                    found = await client.get(DEPLOYMENTS, Key(subject["namespace"], name))
                    containers = found["spec"]["template"]["spec"]["containers"]
                    return str(containers[0].get("image", ""))
    return ""
