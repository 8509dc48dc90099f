"""The resources that the pods of a job use at one moment -> the points of its curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CURVES = 8
"""More pods than this are shown by their lowest, mean and highest values."""


class Used(msgspec.Struct, frozen=True):
    """By one pod; None is not measured."""

    cpu: float | None = None
    """Cores."""
    memory: float | None = None
    """Bytes."""
    gpu: float | None = None
    """Busy GPUs."""
    gpu_memory: float | None = None


class UsageSample(msgspec.Struct, frozen=True):
    at: float
    """Seconds since 1970."""
    values: dict[str, dict[str, float]]
    """By resource, then by curve."""


def usage_sample(at: float, used: Mapping[str, Used]) -> UsageSample:
    values = {}
    for resource in Used.__struct_fields__:
        amounts = {pod: getattr(row, resource) for pod, row in sorted(used.items())}
        known = {pod: amount for pod, amount in amounts.items() if amount is not None}
        if known:
            values[resource] = known if len(used) <= MAX_CURVES else _spread(list(known.values()))
    return UsageSample(at, values)


def _spread(amounts: list[float]) -> dict[str, float]:
    mean = sum(amounts) / len(amounts)
    return {"highest": max(amounts), "mean": mean, "lowest": min(amounts)}
