"""JAXJob: the variables for jax.distributed.initialize; worker 0 is the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.build.pods import add_environment
from muster.operator.frameworks.framework import Framework

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Replica
    from muster.operator.build.addresses import Addresses


class Jax(Framework):
    # All processes are one program: it succeeds when all of them do.
    worker_0_decides = False

    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        variables = {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": str(hosts.port("Worker", 0)),
            "COORDINATOR_ADDRESS": hosts.short("Worker", 0),
            "NUM_PROCESSES": str(hosts.job.total),
            "PROCESS_ID": str(replica.index),
        }
        for container in manifest["spec"]["containers"]:
            add_environment(container, variables)
