"""Tests of real pods need a machine that allows namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.localkube.node import leftovers
from tests.localkube.node.local_node import LocalNode, local_node, may_make_namespaces
from tests.prerequisites import missing_prerequisite


@pytest.fixture(scope="session")
def namespaces() -> None:
    if not may_make_namespaces():
        missing_prerequisite("netns", "this machine forbids namespaces")


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalNode]:
    """A running cluster. After the test nothing of it may be left on the machine."""
    home = tmp_path / "cluster"  # pods see other directories of the test, but not this one
    async with local_node(home) as node:
        yield node
    assert not leftovers.of(home)
