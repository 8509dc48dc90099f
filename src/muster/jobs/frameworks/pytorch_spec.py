"""The fields of PyTorchJobs only: processes per node, and the elastic policy.

Values that torchrun would not accept are rejected. The others stay as they are written, and
`operator/frameworks/pytorch.py` puts them into the pods' environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from muster.contract.job_fields import InvalidJob
from muster.jobs.field_reader import MAX_INT32, Section

if TYPE_CHECKING:
    from muster.jobs.job import Job

PROCESSES = ("auto", "cpu", "gpu")
"""Words for which torchrun counts the processes itself."""
_MAX_PORT = 65535


def check(job: Job) -> tuple[tuple[str, str], ...]:
    """Raise InvalidJob for invalid values; returns warnings about the others."""
    spec = Section(job.spec, "spec")
    _check_processes(spec)
    policy = spec.section("elasticPolicy")
    if not policy.raw:
        return ()
    _check_fields(policy)
    if policy.has("nProcPerNode") and spec.has("nprocPerNode"):
        raise policy.error("nProcPerNode", "spec.nprocPerNode is given too", "keep the latter")
    _check_workers(job)
    _check_bounds(policy, job.count("Worker"))
    if not policy.sections("metrics"):
        return ()
    message = (
        f"{policy.path}.metrics is ignored: no autoscaler is created. Scale by Worker.replicas"
    )
    return (("ElasticMetricsIgnored", message),)


def _check_processes(spec: Section) -> None:
    """A number, also as text: the field is defined as text, and many write a plain number."""
    value = spec.raw.get("nprocPerNode")
    if value is None or value in PROCESSES:
        return
    written = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not read_integer(written):
        hint = f"use {', '.join(PROCESSES)} or a number from 1"
        raise spec.error("nprocPerNode", f"{value!r} is unknown", hint)


def _check_fields(policy: Section) -> None:
    for field in ("rdzvHost", "rdzvBackend", "rdzvId"):
        policy.text(field)
    policy.boolean("standalone")
    policy.number("maxRestarts")
    for field, most in (("rdzvPort", _MAX_PORT), ("nProcPerNode", MAX_INT32)):
        _from_one(policy, field, most)
    for row in policy.sections("rdzvConf"):
        for field in ("key", "value"):
            if not row.has(field):
                raise row.error(field, "is missing", "write key and value")
            row.text(field)


def _from_one(policy: Section, field: str, most: int = MAX_INT32) -> int | None:
    """A number from 1; None if the field is left out."""
    number = policy.number(field, most)
    if number == 0:
        raise policy.error(field, "is 0", "write 1 or more, or leave it out")
    return number


def _check_workers(job: Job) -> None:
    path = f"spec.{job.job_kind.replicas_field}.Worker"
    if not job.replica_spec("Worker"):
        raise InvalidJob(path, "is missing", hint="an elastic job needs workers")
    if not job.count("Worker"):
        raise InvalidJob(f"{path}.replicas", "is 0", hint="an elastic job needs one or more")


def _check_bounds(policy: Section, workers: int) -> None:
    """Check minReplicas and maxReplicas; the default of both is the number of workers."""
    minimum, maximum = _from_one(policy, "minReplicas"), _from_one(policy, "maxReplicas")
    limit = maximum or workers
    if minimum is not None and minimum > limit:
        source = "maxReplicas" if maximum else "the number of workers"
        message = f"is {minimum}, more than {source}, which is {limit}"
        raise policy.error("minReplicas", message, f"write at most {limit}")
    if minimum is None and maximum is not None and maximum < workers:
        message = f"is {maximum}, less than the number of workers, which is {workers}"
        hint = f"write at least {workers}, or minReplicas too"
        raise policy.error("maxReplicas", message, hint)
