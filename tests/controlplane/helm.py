"""Helm, built from its Go module apart from the control plane: a changed pin rebuilds only Helm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.controlplane.fixture import built
from tests.controlplane.pin_versions import HELM

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program `helm`."""
    return built((HELM,)) / "helm"
