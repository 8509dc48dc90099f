"""A client of the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.client import Client
from tests.controlplane.control_plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.connect(kube_config.load(control_plane.kubeconfig)) as connected:
        yield connected
