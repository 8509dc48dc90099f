"""A client that says on stderr what it asks and what it is answered: `--loglevel debug`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from muster.cli.show.output import note
from muster.errors import MusterError
from muster.kube.blocking_client import BlockingClient

if TYPE_CHECKING:
    from muster.kube.request import Request, Response


class LoggingClient(BlockingClient):
    """Every call as a line: method, target, status, milliseconds."""

    def send(self, ask: Request) -> Response:
        start = time.perf_counter()
        outcome = "?"
        try:
            response = super().send(ask)
            outcome = str(response.status)
        except MusterError as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            took = 1e3 * (time.perf_counter() - start)
            note(f"DEBU {ask.method} {ask.target} {outcome} {took:.0f}ms", "debug")
        return response
