"""Jobs of several kinds and policies, and the outcomes that their policies allow.

The first word of a job's name is its policy. A job works until its file in the gate directory
exists, so that it does not end by itself while it can be hit; only a `gang` trains for a time.
"""

from __future__ import annotations

from pathlib import Path

from kubekit.objects.meta import Raw
from tests.e2e.local_cluster import EXAMPLES

GPU = "nvidia.com/gpu"
FINAL = {"SUCCEEDED", "FAILED"}


def allowed(name: str, killed: int, deleted: int) -> set[str]:
    """The possible outcomes of a job of which pods were killed and deleted so many times."""
    match name.partition("-")[0]:
        case "retry" | "code" | "gang" | "torch" | "jax" | "mpi" | "batch":
            return {"SUCCEEDED"}
        case "doomed":
            return {"FAILED"}
        case _ if killed and deleted:
            return FINAL  # The failure of a pod that is deleted at once may never be observed.
        case _:
            return {"FAILED"} if killed else {"SUCCEEDED"}


def job(name: str, gate: Path, work: int, file: str = "open") -> Raw:
    """The job of that name. It works for so many seconds, and until the file is in the gate."""
    busy = f"[ $i -lt {work * 5} ] || [ ! -e {gate}/{file} ]"
    sleep = f"i=0; while {busy}; do sleep 0.2; i=$((i+1)); done"
    policy = name.partition("-")[0]
    match policy:
        case "doomed":
            return alone(name, "Never", f"{sleep}; exit 3", gate)
        case "limit":
            return alone(name, "OnFailure", sleep, gate, backoffLimit=1)
        case "gang":
            return gang(name, work=work)
        case "batch":
            return batch_job(name, sleep, gate)
        case "torch" | "jax" | "mpi":
            return several(policy, name, sleep, gate)
        case _:
            restarts = {"retry": "OnFailure", "never": "Never", "code": "ExitCode"}
            return alone(name, restarts[policy], sleep, gate)


def alone(name: str, restart: str, command: str, gate: Path, **policy: int) -> Raw:
    role = replica("tensorflow", 1, restart, command, gate=gate)
    return tfjob(name, {"Worker": role}, policy)


def gang(name: str, *, work: int) -> Raw:
    """Two workers and a server, which start together and continue when one of them comes back."""
    train = f"python {EXAMPLES / 'numpy_ps.py'} --steps {work * 8} --pause 0.1 --stay"
    # A trainer whose server was killed exits with a code that allows a retry.
    train += " || exit 200"
    worker = replica("tensorflow", 2, "ExitCode", train)
    server = replica("tensorflow", 1, "ExitCode", train, gpus=0)
    return tfjob(name, {"Worker": worker, "PS": server}, {})


def tfjob(name: str, roles: Raw, policy: Raw) -> Raw:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": roles, "runPolicy": policy},
    }


def several(policy: str, name: str, command: str, gate: Path) -> Raw:
    """A job of another kind, with its roles: their policies, numbers and commands."""
    kind, roles = {
        "torch": (
            "PyTorchJob",
            {"Master": ("OnFailure", 1, command), "Worker": ("OnFailure", 2, command)},
        ),
        "jax": ("JAXJob", {"Worker": ("ExitCode", 2, command)}),
        "mpi": (
            "MPIJob",
            {"Launcher": ("OnFailure", 1, command), "Worker": ("OnFailure", 1, "sleep 100000")},
        ),
    }[policy]
    framework = kind.removesuffix("Job").lower()
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            f"{framework}ReplicaSpecs": {
                role: replica(framework, count, restart, words, gate=gate)
                for role, (restart, count, words) in roles.items()
            },
            "runPolicy": {"cleanPodPolicy": "Running"},
        },
    }


def batch_job(name: str, command: str, gate: Path) -> Raw:
    """A batch/v1 Job, whose controller is not the operator."""
    spec = replica("main", 1, "", command, gpus=0, gate=gate)["template"]["spec"]
    template = {"metadata": {"labels": {"training.kubeflow.org/job-name": name}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 50,
            "template": {**template, "spec": {**spec, "restartPolicy": "Never"}},
        },
    }


def replica(
    container: str, count: int, restart: str, command: str, gpus: int = 1, gate: Path | None = None
) -> Raw:
    body: Raw = {
        "name": container,
        "image": "python:3.12",
        "command": ["sh", "-c", command],
        "resources": {"limits": {GPU: gpus} if gpus else {}},
    }
    spec: Raw = {"containers": [body], "terminationGracePeriodSeconds": 1}
    if gate is not None:
        spec["volumes"] = [{"name": "gate", "hostPath": {"path": str(gate)}}]
        body["volumeMounts"] = [{"name": "gate", "mountPath": str(gate)}]
    return {"replicas": count, "restartPolicy": restart, "template": {"spec": spec}}
