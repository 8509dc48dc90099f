"""Objects as Volcano and training-operator v1.9 write them, of which a cluster moves over."""

from __future__ import annotations

from kubekit.objects.meta import Raw

WEBHOOK = "validator.training-operator.kubeflow.org"
LABEL = "training.kubeflow.org"
CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi"}


def volcano_gang(name: str, members: int) -> list[Raw]:
    """A PodGroup of Volcano and its pods, two GPUs each."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": members},
    }
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {"schedulerName": "volcano", "containers": [container]},
        }
        for number in range(1, members + 1)
    ]
    return [group, *pods]


def training_job(kind: str, name: str, roles: dict[str, int]) -> Raw:
    field = f"{kind.removesuffix('Job').lower()}ReplicaSpecs"
    container = {"name": CONTAINERS[kind], "image": "i", "command": ["train"]}
    specs = {
        role: {"replicas": count, "template": {"spec": {"containers": [container]}}}
        for role, count in roles.items()
    }
    metadata = {"name": name}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {field: specs},
    }


def pods_of_training_job(job: Raw, roles: dict[str, int], node: str) -> list[Raw]:
    """The pods that training-operator creates for a job, on a node."""
    kind, name = job["kind"], job["metadata"]["name"]
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "name": name,
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    pods = []
    for role, count in roles.items():
        for index in range(count):
            labels = {
                f"{LABEL}/operator-name": f"{kind.lower()}-controller",
                f"{LABEL}/job-name": name,
                f"{LABEL}/replica-type": role.lower(),
                f"{LABEL}/replica-index": str(index),
            }
            launcher = role == "Launcher"
            pod_name = f"{name}-launcher" if launcher else f"{name}-{role.lower()}-{index}"
            container = {"name": CONTAINERS[kind], "image": "i"}
            pods.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": pod_name, "labels": labels, "ownerReferences": [owner]},
                    "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
                }
            )
    return pods


def webhook() -> Raw:
    """The webhook of training-operator for TFJobs, which only the operator can answer."""
    service = {"name": "training-operator", "namespace": "kubeflow", "path": "/validate"}
    rule = {
        "apiGroups": ["kubeflow.org"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["tfjobs"],
    }
    hook = {
        "name": "validator.tfjob.training-operator.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "clientConfig": {"service": service},
        "rules": [rule],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK},
        "webhooks": [hook],
    }
