"""Prerequisites of tests: without them a test is skipped, or fails if they are required.

`MUSTER_REQUIRE` is a comma-separated list of prerequisites (go, netns, tensorflow and the
like) that must be there. CI sets it, so that no test is skipped there in silence.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing_prerequisite(prerequisite: str, reason: str) -> NoReturn:
    """Skip the running test for that reason, or fail it if the prerequisite is required."""
    required = os.environ.get("MUSTER_REQUIRE", "").split(",")
    if prerequisite in (name.strip() for name in required):
        pytest.fail(f"{prerequisite} is required: {reason}", pytrace=False)
    pytest.skip(reason)
