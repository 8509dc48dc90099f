"""The scheduler's metrics, under the names that alerts use.

Declared here, counted where the event happens; `effects.waiting_line_publisher` sets the gauges.
"""

from __future__ import annotations

from kubekit.telemetry.metrics import counter, gauge, histogram

DECISION_SECONDS = histogram("decision_seconds", "Time to decide about one gang")
BIND_SECONDS = histogram("bind_seconds", "Time from a plan to a bind that is settled")
PODS_PLANNED = counter("pods_planned_total", "Pods given a node by a plan")
BINDS = counter("binds_total", "Binds that were settled", "outcome")
DELETED = counter("pods_deleted_total", "Members deleted", "reason")
REPAIRS = counter(
    "repairs_total", "Gangs that lacked members and were mended or released", "outcome"
)
WAITING = gauge("gangs_waiting", "Gangs that wait", "reason")
ROOMS_HELD = gauge("rooms_held", "Holds for missing members")
HALF_BOUND = gauge("gangs_half_bound", "Gangs that have some members running and lack others")
