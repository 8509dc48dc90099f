"""The clock of the API server, by which leases are judged: this machine's may be wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from kubekit.client.request import Request

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.client.request import Response


def seconds_ahead(response: Response, before: datetime) -> float:
    """How far this machine's clock is ahead of the server's; `before` is when the request went."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    if "date" not in headers:
        return 0.0
    # The header has whole seconds: half a second is the best guess for the rest.
    return (before - parsedate_to_datetime(headers["date"])).total_seconds() - 0.5


def server_now(client: BlockingClient) -> datetime:
    """The time by the server's clock."""
    before = datetime.now(UTC)
    ahead = seconds_ahead(client.send(Request("GET", "/version")), before)
    return datetime.now(UTC) - timedelta(seconds=ahead)
