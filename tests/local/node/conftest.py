"""Tests of real pods need a machine that allows namespaces."""

from __future__ import annotations

import pytest

from tests.local.node.local_node import may_make_namespaces
from tests.prerequisites import missing_prerequisite


@pytest.fixture(scope="session")
def namespaces() -> None:
    if not may_make_namespaces():
        missing_prerequisite("netns", "this machine forbids namespaces")
