"""TFJob: TF_CONFIG, which tells every replica its own task and the addresses of its peers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from muster.operator.build.pods import add_environment, main_container
from muster.operator.frameworks.framework import Framework

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.build.addresses import Addresses

EVALUATOR = "evaluator-in-cluster"


class TensorFlow(Framework):
    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        job = hosts.job
        if job.total == 1:
            return  # With a TF_CONFIG, TensorFlow's Estimator would wait for peers.
        value = tf_config(job, replica, hosts)
        add_environment(main_container(manifest, replica, job), {"TF_CONFIG": value})

    def fixed_size(self, job: Job) -> bool:
        return not job.dynamic_workers


def tf_config(job: Job, replica: Replica, hosts: Addresses) -> str:
    """The value of TF_CONFIG, byte for byte as the training operator writes it."""
    task = {"type": replica.role.lower(), "index": replica.index}
    if job.dynamic_workers:
        return _json({"cluster": _sparse(replica, hosts), "task": task})
    roles = sorted(
        (replica_spec.role.lower(), hosts.by_role_json[replica_spec.role])
        for replica_spec in job.replica_specs
        if replica_spec.role != "Evaluator" or job.annotation(EVALUATOR, "true") != "false"
    )
    cluster = ",".join(f'"{role}":{addresses}' for role, addresses in roles)
    return f'{{"cluster":{{{cluster}}},"task":{_json(task)},"environment":"cloud"}}'


def _sparse(replica: Replica, hosts: Addresses) -> dict[str, Any]:
    """The cluster of a job with dynamic workers: only the peers that a replica connects to."""
    own = hosts.by_role[replica.role][replica.index]
    if replica.role == "Worker":
        return {"worker": {str(replica.index): own}, "ps": hosts.by_role.get("PS") or None}
    return {"worker": {}, "ps": [own] if replica.role == "PS" else []}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
