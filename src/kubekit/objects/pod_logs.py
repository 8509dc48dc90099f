"""PodLog: the log of one attempt at a container, which outlives its pod on the local cluster.

Only the local cluster serves this kind; a client must do without it elsewhere.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec resolves annotations at run time

from kubekit.objects.kinds import Kind
from kubekit.objects.meta import ApiObject


class PodLog(ApiObject, frozen=True):
    """One attempt. Its metadata has the namespace and labels of the pod, and the job as owner."""

    pod_name: str = ""
    pod_uid: str = ""
    container: str = ""
    init: bool = False
    """Whether it is an init container."""
    main: bool = False
    """Whether it is the first container of its pod."""
    attempt: int = 0
    """The number of earlier attempts at the container in the same pod."""
    archived: bool = False
    """Whether the log was moved from the pod to the archive."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    size: int = 0
    """Bytes on disk."""


POD_LOGS = Kind.of("logs.muster.dev/v1", "PodLog", PodLog)
