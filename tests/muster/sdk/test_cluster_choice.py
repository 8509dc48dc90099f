"""Which cluster a call uses."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

import muster
from kubekit.client import request
from kubekit.client.auth.endpoint import Endpoint
from kubekit.errors import UsageError
from kubekit.request_errors import Aborted, Unreachable
from muster.client import target
from muster.client.home import Home
from muster.client.target import Cluster, Target
from muster.sdk.cluster_choice import (
    Cancellation,
    cancelled_by,
    connector,
    default_cluster,
    target_of,
)
from muster.sdk.local_cluster import LocalCluster
from tests.muster.client.test_target import kubeconfig

FIRST, SECOND = Home(Path("/first")), Home(Path("/second"))


class OpenCluster:
    home = FIRST


def test_arguments_choose_as_the_options_of_commands_do() -> None:
    target = target_of(kubeconfig="~/k", context="two", namespace="team")

    assert target.kubeconfig == Path.home() / "k"
    assert (target.context, target.namespace, target.home) == ("two", "team", None)
    assert target_of("kube:two").choice == "kube:two"
    assert target_of(cast(LocalCluster, OpenCluster())).home == FIRST
    assert target_of().home is None


@pytest.mark.parametrize("other", [{"kubeconfig": "k"}, {"context": "c"}])
def test_two_choices_exclude_each_other(other: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot be used with"):
        target_of("local", **other)


def test_the_innermost_open_cluster_is_the_default() -> None:
    with default_cluster(FIRST):
        with default_cluster(SECOND):
            assert target_of().home == SECOND
        assert target_of().home == FIRST
        assert target_of(kubeconfig="k").home is None
    assert target_of().home is None


def in_thread() -> Home | UsageError | None:
    found: list[Home | UsageError | None] = []

    def look() -> None:
        try:
            found.append(target_of().home)
        except UsageError as error:
            found.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_uses_the_one_open_cluster_and_never_guesses() -> None:
    with default_cluster(FIRST):
        assert in_thread() == FIRST
        with default_cluster(SECOND):
            refused = in_thread()
    assert in_thread() is None

    assert isinstance(refused, UsageError)
    assert "2 local clusters are open" in str(refused)


def test_run_looks_for_the_cluster_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks the cluster could change, and the job would fit neither."""
    looks: list[Target] = []
    find = target._configured

    def counted(wanted: Target) -> Cluster | None:
        looks.append(wanted)
        return find(wanted)

    monkeypatch.setattr(target, "_configured", counted)
    with pytest.raises(muster.UsageError, match="image must be set"):
        muster.run(len, ("abc",), kind="jax", kubeconfig=kubeconfig(tmp_path / "config"))

    assert len(looks) == 1


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
