"""Pods as controllers of replicas see them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from kubekit.objects.meta import Raw, timestamp
from localkube.controllers.workloads import Pod
from tests import builders

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
PHASES = {"failed": "Failed", "succeeded": "Succeeded", "pending": "Pending"}


def pod_in(state: str, name: str, revision: str, **spec: Any) -> Pod:
    """A pod that is ready, starting, terminating, pending, failed or succeeded."""
    meta: Raw = {"uid": f"uid-{name}", "labels": {"controller-revision-hash": revision}}
    if state == "terminating":
        meta["deletionTimestamp"] = timestamp(NOW)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(NOW)}
    status = {
        "phase": PHASES.get(state, "Running"),
        "conditions": [ready] if state == "ready" else [],
    }
    return msgspec.convert(builders.pod(name, meta=meta, status=status, **spec), Pod)
