"""PyTorchJob: the variables that torch.distributed and torchrun read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from muster.operator.build.pods import WITHOUT_PRIVILEGES, add_environment, append
from muster.operator.frameworks.framework import Framework

if TYPE_CHECKING:
    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.build.addresses import Addresses


class PyTorch(Framework):
    worker_0_decides = False

    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        variables = environment(hosts.job, replica, hosts)
        for container in manifest["spec"]["containers"]:
            add_environment(container, variables)
        has_master = hosts.job.replica_spec("Master") is not None
        if hosts.settings.init_image and replica.role == "Worker" and has_master:
            _wait_for_master(manifest, hosts)

    def fixed_size(self, job: Job) -> bool:
        """An elastic job accepts workers while it runs."""
        return not job.spec.get("elasticPolicy")

    def succeeded(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        """Without a master all workers must succeed; in an elastic job one is enough."""
        if job.spec.get("elasticPolicy"):
            return any(pod.status.phase == "Succeeded" for pod in pods.get("Worker", []))
        return super().succeeded(job, pods)


def environment(job: Job, replica: Replica, hosts: Addresses) -> dict[str, str]:
    """The environment variables of one replica."""
    variables = {"PYTHONUNBUFFERED": "1"}
    if job.replica_spec("Master"):
        variables |= _with_master(job, replica, hosts)
    variables["PET_NPROC_PER_NODE"] = str(job.spec.get("nprocPerNode") or "auto")
    if elastic := job.spec.get("elasticPolicy"):
        return variables | _elastic(job, elastic, hosts)
    return variables | {"PET_NNODES": str(job.total)}


def _with_master(job: Job, replica: Replica, hosts: Addresses) -> dict[str, str]:
    per_node = str(job.spec.get("nprocPerNode") or "")
    # `auto`, `gpu` and `cpu` are known only on the node: torchrun then computes the world size.
    processes = read_integer(per_node) or 1
    address, port = hosts.short("Master", 0), str(hosts.port("Master", 0))
    rank = str(0 if replica.role == "Master" else replica.index + 1)
    # torchrun reads the PET_ variables; programs started without it read the others.
    return {
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": address,
        "PET_MASTER_ADDR": address,
        "WORLD_SIZE": str(job.total * processes),
        "RANK": rank,
        "PET_NODE_RANK": rank,
    }


def _elastic(job: Job, policy: Raw, hosts: Addresses) -> dict[str, str]:
    workers = job.count("Worker")
    least, most = policy.get("minReplicas") or workers, policy.get("maxReplicas") or workers
    host = policy.get("rdzvHost") or hosts.short("Worker", 0)
    port = policy.get("rdzvPort") or hosts.port("Worker", 0)
    variables = {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": str(policy.get("rdzvBackend") or "c10d"),
        "PET_NNODES": f"{least}:{most}",
    }
    optional = {
        "PET_MAX_RESTARTS": policy.get("maxRestarts"),
        "PET_NPROC_PER_NODE": policy.get("nProcPerNode"),
        "PET_RDZV_ID": policy.get("rdzvId"),
    }
    variables |= {name: str(value) for name, value in optional.items() if value is not None}
    settings = policy.get("rdzvConf") or ()
    if settings:
        variables["PET_RDZV_CONF"] = ",".join(f"{row['key']}={row['value']}" for row in settings)
    if policy.get("standalone"):
        variables["PET_STANDALONE"] = ""
    return variables


def _wait_for_master(manifest: Raw, hosts: Addresses) -> None:
    """Add an init container that waits until the master's host name resolves.

    The resolvers of some images give up at the first failure.
    """
    master = hosts.short("Master", 0)
    script = f"for i in $(seq 1 100); do nslookup {master} && exit 0; sleep 2; done; exit 1"
    container = {
        "name": "init-pytorch",
        "image": hosts.settings.init_image,
        "command": ["sh", "-c", script],
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "securityContext": WITHOUT_PRIVILEGES,
    }
    append(manifest["spec"], "initContainers", container)
