"""Prometheus metrics of the operator: jobs by event, objects created and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.telemetry import metrics
from muster.operator.action_types import Create, Delete

if TYPE_CHECKING:
    from muster.jobs.job import Job
    from muster.operator.action_types import Action

JOBS = metrics.counter("jobs_total", "Jobs by kind and event.", "namespace", "kind", "event")
OBJECTS = metrics.counter(
    "job_objects_total", "Objects created and deleted for jobs.", "resource", "verb"
)
FAILURES = metrics.counter(
    "job_object_failures_total",
    "Objects of jobs that could not be created or deleted.",
    "resource",
    "verb",
)


def count_job_event(job: Job, reason: str) -> None:
    """Count an event if it is about the job's state: its reason then begins with the kind."""
    event = reason.removeprefix(job.kind)
    if event != reason or reason == "InvalidSpec":
        JOBS.labels(job.namespace, job.kind, event).inc()


def count_failed_write(action: Action) -> None:
    """Count an object that could not be created or deleted."""
    if isinstance(action, Create | Delete):
        FAILURES.labels(action.kind.resource, type(action).__name__.lower()).inc()
