"""Fixtures of the end-to-end tests: the cluster, a client, a namespace."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import NAMESPACES, SERVICE_ACCOUNTS
from kubekit.objects.meta import Key
from tests.muster.operator import clusters
from tests.muster.operator.driver import get_or_none
from tests.waiting import connections_closed, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.muster.operator.clusters import RunningCluster


@pytest.fixture(
    scope="session", params=[pytest.param("kubernetes", marks=pytest.mark.kube), "local"]
)
def running_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    if request.param == "kubernetes":
        with clusters.kubernetes(request.getfixturevalue("control_plane_binaries")) as started:
            yield started
    else:
        with clusters.local(tmp_path_factory.mktemp("local")) as started:
            yield started


@pytest.fixture
async def client(running_cluster: RunningCluster) -> AsyncIterator[Client]:
    async with Client.connect(running_cluster.endpoint) as connected:
        yield connected
    await connections_closed()


@pytest.fixture
async def ns(running_cluster: RunningCluster, client: Client) -> str:
    name = f"ns-{random.randrange(10**9)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    if running_cluster.plane is not None:
        await eventually(
            lambda: get_or_none(client, SERVICE_ACCOUNTS, Key(name, "default")), what="its account"
        )
    return name
