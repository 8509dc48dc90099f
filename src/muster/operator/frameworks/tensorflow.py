"""TFJob: TF_CONFIG, by which every member of a TensorFlow cluster knows the others and itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from muster.operator.build.pods import add_environment
from muster.operator.frameworks.framework import Framework

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Member
    from muster.operator.build.addresses import Addresses

EVALUATOR = "evaluator-in-cluster"


class TensorFlow(Framework):
    def equip(self, manifest: Raw, member: Member, hosts: Addresses) -> None:
        job = hosts.job
        if job.total == 1:
            return  # A lone TF_CONFIG makes Estimator wait for peers.
        replica = job.replica(member.role)
        if replica is not None:
            value = tf_config(job, member, hosts)
            add_environment(manifest, replica.container, {"TF_CONFIG": value})


def tf_config(job: Job, member: Member, hosts: Addresses) -> str:
    """The value of TF_CONFIG, byte for byte as TensorFlow users know it."""
    task = {"type": member.role.lower(), "index": member.index}
    if job.dynamic_workers:
        return _json({"cluster": _sparse(member, hosts), "task": task})
    roles = sorted(
        (replica.role.lower(), hosts.listed[replica.role])
        for replica in job.replicas
        if replica.role != "Evaluator" or job.annotation(EVALUATOR, "true") != "false"
    )
    cluster = ",".join(f'"{role}":{everyone}' for role, everyone in roles)
    return f'{{"cluster":{{{cluster}}},"task":{_json(task)},"environment":"cloud"}}'


def _sparse(member: Member, hosts: Addresses) -> dict[str, Any]:
    """Workers may come and go: each member is told only of those it talks to."""
    mine = hosts.addresses[member.role][member.index]
    if member.role == "Worker":
        return {"worker": {str(member.index): mine}, "ps": hosts.addresses.get("PS") or None}
    return {"worker": {}, "ps": [mine] if member.role == "PS" else []}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
