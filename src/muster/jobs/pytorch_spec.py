"""What only PyTorchJobs have: processes per node, and the elastic policy.

Values that torchrun would not accept are rejected. The others stay as they are written, and
`operator/frameworks/pytorch.py` puts them into the pods' environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.errors import InvalidJob
from muster.jobs.fields import boolean, integer, mapping, objects, text

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.jobs.job import Job

_DIGITS = 10
PROCESSES = ("auto", "cpu", "gpu")
"""Words for which torchrun counts the processes itself."""
_PATH = "spec.elasticPolicy"
_PORT = 65535


def check(job: Job) -> tuple[tuple[str, str], ...]:
    """Raise InvalidJob for invalid values; returns warnings about the others."""
    _check_processes(job.spec.get("nprocPerNode"), "spec.nprocPerNode")
    policy = mapping(job.spec.get("elasticPolicy"), _PATH)
    if not policy:
        return ()
    _check_fields(policy)
    if policy.get("nProcPerNode") is not None and job.spec.get("nprocPerNode") is not None:
        raise InvalidJob(
            f"{_PATH}.nProcPerNode", "spec.nprocPerNode is given too", hint="keep the latter"
        )
    _check_workers(job)
    _check_bounds(policy, job.count("Worker"))
    if not objects(policy.get("metrics"), f"{_PATH}.metrics"):
        return ()
    message = f"{_PATH}.metrics is ignored: no autoscaler is created. Scale by Worker.replicas"
    return (("ElasticMetricsIgnored", message),)


def _check_processes(value: object, path: str) -> None:
    """A number, also as text: the field is defined as text, and many write a plain number."""
    if value is None or value in PROCESSES:
        return
    written = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    number = written.lstrip("0") if written.isascii() and written.isdecimal() else ""
    if not 0 < len(number) <= _DIGITS:
        known = ", ".join(PROCESSES)
        raise InvalidJob(path, f"{value!r} is unknown", hint=f"use {known} or a number from 1")


def _check_fields(policy: Raw) -> None:
    for field in ("rdzvHost", "rdzvBackend", "rdzvId"):
        text(policy.get(field), f"{_PATH}.{field}")
    boolean(policy.get("standalone"), f"{_PATH}.standalone")
    integer(policy.get("maxRestarts"), f"{_PATH}.maxRestarts", 0)
    for field, most in (("rdzvPort", _PORT), ("nProcPerNode", 2**31 - 1)):
        _from_one(policy, field, most)
    for i, row in enumerate(objects(policy.get("rdzvConf"), f"{_PATH}.rdzvConf")):
        for field in ("key", "value"):
            where = f"{_PATH}.rdzvConf[{i}].{field}"
            if row.get(field) is None:
                raise InvalidJob(where, "is missing", hint="write key and value")
            text(row[field], where)


def _from_one(policy: Raw, field: str, most: int = 2**31 - 1) -> int | None:
    """A number from 1; None if the field is left out."""
    number = integer(policy.get(field), f"{_PATH}.{field}", -1, most)
    if number == 0:
        raise InvalidJob(f"{_PATH}.{field}", "is 0", hint="write 1 or more, or leave it out")
    return None if number < 0 else number


def _check_workers(job: Job) -> None:
    path = f"spec.{job.job_kind.replicas_field}.Worker"
    if not job.replica_spec("Worker"):
        raise InvalidJob(path, "is missing", hint="an elastic job needs workers")
    if not job.count("Worker"):
        raise InvalidJob(f"{path}.replicas", "is 0", hint="an elastic job needs one or more")


def _check_bounds(policy: Raw, workers: int) -> None:
    """Check minReplicas and maxReplicas; the default of both is the number of workers."""
    least, most = _from_one(policy, "minReplicas"), _from_one(policy, "maxReplicas")
    if least is not None and least > (most or workers):
        than = "maxReplicas" if most else "the number of workers"
        raise InvalidJob(
            f"{_PATH}.minReplicas",
            f"is {least}, more than {than}, which is {most or workers}",
            hint=f"write at most {most or workers}",
        )
    if least is None and most is not None and most < workers:
        raise InvalidJob(
            f"{_PATH}.maxReplicas",
            f"is {most}, less than the number of workers, which is {workers}",
            hint=f"write at least {workers}, or minReplicas too",
        )
