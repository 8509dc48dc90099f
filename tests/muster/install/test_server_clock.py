"""The time by the server's clock, whatever this machine's says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from kubekit.client.request import Request, Response
from muster.install.existing_objects import server_now


class Server:
    """An API server whose clock is an hour ahead."""

    def __init__(self, *, has_date: bool) -> None:
        self.now = datetime.now(UTC) + timedelta(hours=1 if has_date else 0)
        self.headers = {"Date": format_datetime(self.now, usegmt=True)} if has_date else {}

    def send(self, ask: Request) -> Response:
        return Response(200, self.headers, b"{}")


@pytest.mark.parametrize("has_date", [True, False])
def test_the_time_is_that_of_the_server(has_date: bool) -> None:
    server = Server(has_date=has_date)

    difference = server_now(server) - server.now  # type: ignore[arg-type]

    assert abs(difference) < timedelta(seconds=30)
