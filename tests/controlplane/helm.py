"""Helm, built from its Go module apart from the control plane: a changed pin rebuilds only Helm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.controlplane import build
from tests.controlplane.pin_versions import HELM
from tests.prerequisites import missing_prerequisite

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program `helm`, built now if the cache lacks it."""
    try:
        return build.build((HELM,)) / "helm"
    except build.Unavailable as error:
        missing_prerequisite("go", str(error))
