"""Durations in arguments."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from kubekit.errors import UsageError
from muster.sdk.duration import seconds_of


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("10m", 600.0),
        (90, 90.0),
        (0.5, 0.5),
        (0, 0.0),
        (timedelta(minutes=5), 300.0),
        (None, math.inf),
    ],
)
def test_a_duration_has_several_forms(value: Any, seconds: float) -> None:
    assert seconds_of("timeout", value) == seconds


@pytest.mark.parametrize("value", ["2 hours", "", -1, True, math.nan, [1]])
def test_what_is_no_duration_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="timeout") as wrong:
        seconds_of("timeout", value)

    assert wrong.value.hint == 'Write timeout="2h", "10m" or seconds.'
