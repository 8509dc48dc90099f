"""Scalars of a TensorBoard, which may answer anything."""

from __future__ import annotations

import json

import msgspec
import pytest

from muster.web.cluster import curves


def test_losses_come_first_and_the_number_of_series_is_bounded() -> None:
    tags = {"run": {f"tag-{n:03}": {"description": "<b>"} for n in range(100)} | {"eval/Loss": {}}}
    rows = curves.series(json.dumps(tags).encode())

    assert rows[0] == ("eval/Loss", "run")
    assert len(rows) == curves.MAX_SERIES


def test_numbers_that_a_chart_cannot_show_are_gaps() -> None:
    body = b'[[1, 0, 0.5], [1, 1, "NaN"], [1, 2, "Infinity"], [1, "x", 1], [1, 3, null], [1, 4, 2]]'

    assert curves.points(body) == {0: 0.5, 1: None, 2: None, 3: None, 4: 2.0}


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[[1]]", b'[["a", {}, 1]]', b"", b"[" * 5000])
def test_answers_that_make_no_sense_are_errors_of_one_kind(body: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        curves.points(body)


def test_runs_of_a_tag_share_their_steps() -> None:
    charts = curves.charts(
        {("loss", "a"): {0: 1.0, 2: 0.5}, ("loss", "b"): {1: 2.0}, ("lr", "a"): {0: 0.1}}
    )

    assert [chart.tag for chart in charts] == ["loss", "lr"]
    assert charts[0].steps == [0, 1, 2]
    assert charts[0].values == [[1.0, None, 0.5], [None, 2.0, None]]
