"""Curves from the lines of a log."""

from __future__ import annotations

import pytest

from muster.sdk.notebook.curves import CurveReader, Curves


def read(*lines: str, names: tuple[str, ...] = ()) -> Curves:
    reader = CurveReader()
    for line in lines:
        reader.add(line)
    return reader.curves(names)


@pytest.mark.parametrize(
    "form",
    [
        "step={step} loss={loss}",
        "[worker 0] Step: {step}, loss: {loss}, at 12:30:45",
        "epoch {step} loss {loss}",
        '{{"step": {step}, "loss": {loss}, "host": "10.0.0.1"}}',
        "global_step={step} | loss={loss}e0",
    ],
)
def test_usual_forms_of_lines_are_read(form: str) -> None:
    lines = [form.format(step=step, loss=loss) for step, loss in ((10, 2.5), (20, 0.25))]

    assert read(*lines).series == {"loss": [(10.0, 2.5), (20.0, 0.25)]}


def test_points_without_a_step_are_counted() -> None:
    assert read("acc=0.1", "acc=0.2").series == {"acc": [(0, 0.1), (1, 0.2)]}


def test_usual_names_come_before_others_unless_names_are_given() -> None:
    lines = ["loss=1 rows=5", "loss=2 rows=6"]

    assert list(read(*lines).series) == ["loss"]
    assert list(read(*lines, names=("rows",)).series) == ["rows"]
    assert list(read("rows=5", "rows=6").series) == ["rows"]


@pytest.mark.parametrize("line", ["listening on 10.0.0.1:8080", "loss=nan", "80%", "at 12:30:45"])
def test_other_numbers_are_no_points(line: str) -> None:
    assert read(line, line).series == {}


def test_a_curve_is_drawn_with_its_name_escaped() -> None:
    curves = Curves({"<b>": [(0, 1.0), (1, 0.5)]})

    html = curves._repr_html_()

    assert html.count("<svg") == 1
    assert "&lt;b&gt; 0.5" in html
    assert "<b>" not in html
    assert repr(curves) == "<b>: 1 → 0.5 (2 points)"


def test_a_long_curve_is_drawn_with_few_points_and_its_last_one() -> None:
    curves = Curves({"loss": [(float(step), 1.0 / (step + 1)) for step in range(100_000)]})

    assert len(curves._repr_html_()) < 20_000
    assert "loss 1e-05" in curves._repr_html_()


def test_a_flat_curve_and_no_curve_are_no_errors() -> None:
    assert "<polyline" in Curves({"loss": [(1, 2.0), (1, 2.0)]})._repr_html_()
    assert "no curves" in Curves()._repr_html_()


def test_a_single_point_is_a_curve_only_if_it_is_asked_for() -> None:
    reader = CurveReader("j")
    reader.add("final loss=0.25")

    assert reader.curves().series == {}
    asked = reader.curves(("loss",))
    assert (asked.series, repr(asked)) == ({"loss": [(0, 0.25)]}, "loss: 0.25")
    assert "loss 0.25" in asked._repr_html_()
