"""Real pods need a machine that lets us make namespaces."""

from __future__ import annotations

import pytest

from tests.local.node.cluster import may_make_namespaces
from tests.require import lack


@pytest.fixture(scope="session")
def namespaces() -> None:
    if not may_make_namespaces():
        lack("netns", "this machine forbids namespaces")
