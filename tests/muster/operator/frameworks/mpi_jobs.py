"""MPIJobs for tests, and the names of their pods."""

from __future__ import annotations

from typing import Any

from kubekit.objects.meta import Raw
from muster.jobs import names
from tests.muster.operator.builders import manifest, replica, template

LAUNCHER = names.launcher("j", "job-uid", 0)


WORKERS = ("j-worker-0", "j-worker-1")


def job(**spec: Any) -> Raw:
    roles = {"Launcher": replica(1, name="mpi"), "Worker": replica(2, name="mpi")}
    roles["Launcher"]["template"]["spec"]["containers"][0]["command"] = ["mpirun", "x"]
    return manifest("MPIJob", roles, **spec)


def single(**spec: Any) -> Raw:
    """One template for launcher and workers, as arena writes it."""
    raw = manifest("MPIJob", {"Launcher": {}})
    body = template("mpi")
    body["spec"]["containers"][0] |= {
        "command": ["sh", "-c", "mpirun python x.py"],
        "args": ["a"],
        "resources": {"limits": {"nvidia.com/gpu": 2}},
    }
    raw["spec"] = {"template": body, **({"replicas": 2} | spec)}
    return raw
