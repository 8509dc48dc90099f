"""Fixtures for the dashboard: a server on a local API server, and a logged-in client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import NAMESPACES
from muster.web.access.gate import Policy
from muster.web.app import make_app
from muster.web.cluster import watched_objects
from tests.local_server import LocalServer
from tests.muster.cli.conftest import teach
from tests.muster.web.site import Site


@pytest.fixture(scope="session")
def job_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A local API server that knows the job kinds; nothing acts on the objects."""
    with LocalServer(tmp_path_factory.mktemp("jobs")) as server:
        teach(server.kubeconfig)
        yield server


@pytest.fixture
def policy() -> Policy:
    """Override it with `@pytest.mark.parametrize("policy", [Policy(read_only=True)])`."""
    return Policy()


@pytest.fixture
async def site(
    job_server: LocalServer, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """A dashboard, a client that is logged in, and a namespace of its own."""
    # On a busy machine, a page would say that its objects are on the way.
    monkeypatch.setattr(watched_objects, "PATIENCE_SECONDS", 60.0)
    endpoint = kube_config.load(job_server.kubeconfig)
    with BlockingClient(endpoint) as api:
        made = api.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "web-"}})
        server = TestServer(make_app(endpoint, policy), host="127.0.0.1")
        async with TestClient(server) as client:
            site = Site(client, policy, api, made["metadata"]["name"], endpoint)
            if not (policy.proxy_hosts or policy.sign_in):
                await site.login()
            yield site
