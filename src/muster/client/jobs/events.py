"""Events about a job and its pods.

All events of the namespace are listed and filtered here: a field selector can name one object, and
a job has many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import EVENTS
from muster.jobs.view.events import Event, EventRow, rows_about

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient

_EVENTS = EVENTS.read_as(Event)


def about(
    client: BlockingClient,
    namespace: str,
    uids: Collection[str],
    group: str = "",
    since: datetime | None = None,
) -> list[EventRow]:
    """Events about the objects with these UIDs and the pod group of this name, oldest first."""
    return rows_about(client.list(_EVENTS, namespace, page=0).items, uids, group, since)
