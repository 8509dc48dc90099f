"""Samples of resources: a curve per pod, or the spread of many."""

from __future__ import annotations

from muster.web.cluster.curves import MAX_CURVES, usage_sample


def test_few_pods_have_a_curve_each_and_only_measured_resources_are_there() -> None:
    sample = usage_sample(5.0, {"b": {"cpu": 1.5, "memory": 10.0}, "a": {"cpu": 0.5, "gpu": 0.25}})

    assert sample.values == {
        "cpu": {"a": 0.5, "b": 1.5}, "memory": {"b": 10.0}, "gpu": {"a": 0.25},
    }  # fmt: skip


def test_many_pods_are_shown_by_their_spread() -> None:
    used = {f"pod-{n}": {"cpu": float(n)} for n in range(MAX_CURVES + 1)}

    assert usage_sample(0.0, used).values == {"cpu": {"highest": 8.0, "mean": 4.0, "lowest": 0.0}}


def test_no_pods_have_no_values() -> None:
    assert usage_sample(0.0, {}).values == {}
