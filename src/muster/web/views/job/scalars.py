"""Scalars that a TensorBoard serves -> charts. It is a pod, so its answers may be anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SERIES = 32
MAX_POINTS = 5000
Number = float | int | str | None
"""TensorBoard writes NaN and the infinities as text."""


class Chart(msgspec.Struct, frozen=True):
    """One tag: its values in each run, over all steps."""

    tag: str
    runs: list[str]
    steps: list[float]
    values: list[list[float | None]]


def series(body: bytes) -> list[tuple[str, str]]:
    """Tag and run of each series in TensorBoard's list of tags; losses first."""
    tags = msgspec.json.decode(body, type=dict[str, dict[str, object]])
    rows = [(tag, run) for run, by_tag in tags.items() for tag in by_tag]
    return sorted(rows, key=lambda row: ("loss" not in row[0].lower(), *row))[:MAX_SERIES]


def points(body: bytes) -> dict[float, float | None]:
    """Value by step, from TensorBoard's rows of time, step and value; None is a gap."""
    rows = msgspec.json.decode(body, type=list[tuple[Number, Number, Number]])
    pairs = ((_number(step), _number(value)) for _, step, value in rows[:MAX_POINTS])
    return {step: value for step, value in pairs if step is not None}


def _number(value: Number) -> float | None:
    number = float(value) if isinstance(value, int | float) else math.nan
    return number if math.isfinite(number) else None


def charts(by_series: Mapping[tuple[str, str], Mapping[float, float | None]]) -> list[Chart]:
    """One chart per tag."""
    tags = dict.fromkeys(tag for tag, _ in by_series)
    return [_chart(tag, {r: p for (t, r), p in by_series.items() if t == tag}) for tag in tags]


def _chart(tag: str, runs: Mapping[str, Mapping[float, float | None]]) -> Chart:
    steps = sorted({step for values in runs.values() for step in values})
    return Chart(
        tag, list(runs), steps, [[values.get(step) for step in steps] for values in runs.values()]
    )
