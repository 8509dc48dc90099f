"""What a kind of job may do in its own way, with the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.build.labels import index_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.actions import Create
    from muster.operator.build.addresses import Addresses
    from muster.operator.observed import Observed


class Framework:
    """The rules of one kind of job. Stateless and pure."""

    services = True
    """Whether every replica has a service of its own."""

    def replicas(self, job: Job, observed: Observed) -> list[Replica]:
        """The replicas that should have pods now."""
        return list(job.replicas())

    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        """Add what the framework needs to a replica's new pod manifest, in place."""

    def objects(self, job: Job, observed: Observed, hosts: Addresses) -> list[Create]:
        """Other objects that must exist before the pods, with these contents."""
        return []

    def succeeded(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        """Whether a job without a chief has succeeded."""
        workers = pods.get("Worker", [])
        if not job.replica_spec("Worker"):
            all_pods = [pod for rows in pods.values() for pod in rows]
            return len(all_pods) == job.total > 0 and _all_succeeded(all_pods)
        if len(workers) == job.count("Worker") > 0 and _all_succeeded(workers):
            return True
        first = next((pod for pod in workers if index_of(pod) == 0), None)
        done = first is not None and first.status.phase == "Succeeded"
        return done and job.success_policy != "AllWorkers"

    def running(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        """Whether the job is running."""
        deciding = job.chief_role or ("Worker" if job.replica_spec("Worker") else "")
        rows = pods.get(deciding, []) if deciding else [p for row in pods.values() for p in row]
        return any(_active(pod) for pod in rows)


def _all_succeeded(pods: Sequence[Pod]) -> bool:
    return all(pod.status.phase == "Succeeded" for pod in pods)


def _active(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
