"""A client that reports every request and its answer; `--loglevel debug` prints them.

Kept apart because it loads `BlockingClient`, which commands load only when they connect.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kubekit.client.blocking_client import BlockingClient
from kubekit.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.request import Request, Response


class LoggingClient(BlockingClient):
    """A client that logs a line per request: method, target, status, milliseconds."""

    def __init__(self, endpoint: Endpoint, log: Callable[[str], None]) -> None:
        super().__init__(endpoint, user_agent="arena")
        self._log = log

    def send(self, ask: Request) -> Response:
        start = time.perf_counter()
        outcome = "interrupted"
        try:
            response = super().send(ask)
            outcome = str(response.status)
        except MusterError as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            took = 1e3 * (time.perf_counter() - start)
            self._log(f"DEBU {ask.method} {ask.target} {outcome} {took:.0f}ms")
        return response
