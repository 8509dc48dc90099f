"""Prometheus metrics of managers and loops: leadership, attempts, their duration, keys waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.telemetry import metrics

if TYPE_CHECKING:
    from kubekit.control.loop import Outcome
    from kubekit.control.work_queue import WorkQueue

ATTEMPTS = metrics.counter("reconcile_total", "Attempts by loop and outcome.", "loop", "outcome")
SECONDS = metrics.histogram("reconcile_seconds", "How long an attempt took.", "loop")
DEPTH = metrics.gauge("queue_depth", "Keys that wait for a worker.", "loop")
DELAYED = metrics.gauge("queue_delayed", "Keys that wait for a timer.", "loop")
LEADING = metrics.gauge(
    "leading", "1 while this process acts, 0 while it is a standby.", "component"
)


def attempt(loop: str, outcome: Outcome, seconds: float) -> None:
    """Count one attempt: a hook for `control.loop.run_workers`."""
    ATTEMPTS.labels(loop, outcome.value).inc()
    SECONDS.labels(loop).observe(seconds)


def depth(queue: WorkQueue[Any]) -> None:
    """Show this queue's length at every scrape."""
    DEPTH.labels(queue.name).set_function(lambda: len(queue))
    DELAYED.labels(queue.name).set_function(lambda: queue.delayed)
