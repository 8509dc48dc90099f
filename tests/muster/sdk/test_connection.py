"""Connections of a call that another thread ends."""

from __future__ import annotations

import pytest

from kubekit.client import request
from kubekit.client.auth.endpoint import Endpoint
from kubekit.errors import Aborted, Unreachable
from muster.client.target import Cluster
from muster.sdk.connection import Cancellation, cancelled_by, connector

CLUSTER = Cluster(Endpoint.with_token("https://127.0.0.1:1", "t"), "c", "test", local=False)
CALL = request.Request("GET", "/readyz")


def test_a_cancelled_call_sends_nothing_more_over_old_and_new_connections() -> None:
    cancellation = Cancellation()
    with cancelled_by(cancellation):
        connect = connector(CLUSTER)
    first = connect()

    cancellation.cancel()

    for client in (first, connect()):
        with pytest.raises(Aborted):
            client.send(CALL)


def test_a_call_outside_is_not_cancelled() -> None:
    cancellation = Cancellation()
    with cancelled_by(cancellation):
        pass
    client = connector(CLUSTER)()

    cancellation.cancel()

    with pytest.raises(Unreachable):
        client.send(CALL)
