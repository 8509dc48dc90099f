"""The rules in which kinds of job differ, with their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.build.labels import index_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.build.addresses import Addresses
    from muster.operator.decision_types import Create, Observed


class Framework:
    """The rules of one kind of job. Stateless and pure."""

    services = True
    """Whether every replica has its own service."""
    worker_0_decides = True
    """Whether the success of worker 0 is that of a job without a chief."""

    workers_end = True
    """Whether workers end by themselves when the training is complete."""

    def replicas(self, job: Job, observed: Observed) -> list[Replica]:
        """The replicas that should have pods now."""
        return list(job.replicas())

    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        """Add what the framework needs to a replica's new pod manifest, in place."""

    def fixed_size(self, job: Job) -> bool:
        """Whether every pod's configuration contains the number of replicas."""
        return True

    def objects(self, job: Job, observed: Observed, hosts: Addresses) -> list[Create]:
        """Further objects that must exist before the pods, with these contents."""
        return []

    def succeeded(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        """Whether a job without a chief has succeeded."""
        worker, workers = job.replica_spec("Worker"), pods.get("Worker", [])
        if worker is None:
            return _all_succeeded([pod for rows in pods.values() for pod in rows], job.total)
        if _all_succeeded(workers, worker.count):
            return True
        if not self.worker_0_decides or job.success_policy == "AllWorkers":
            return False
        return any(index_of(pod) == 0 and pod.status.phase == "Succeeded" for pod in workers)

    def running(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        """Whether the job is running."""
        role = job.chief_role or ("Worker" if job.replica_spec("Worker") else "")
        deciding = pods.get(role, []) if role else [pod for rows in pods.values() for pod in rows]
        return any(
            pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
            for pod in deciding
        )


def _all_succeeded(pods: Sequence[Pod], wanted: int) -> bool:
    return len(pods) == wanted > 0 and all(pod.status.phase == "Succeeded" for pod in pods)
