"""Curves from the lines of a log: `step=10 loss=0.25`, `{"epoch": 3, "accuracy": 0.9}`.

A number with a name before it is a point of that curve. The place on the x axis is the step (or
epoch, iteration) of the same line, if it has one; else the points are counted.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from muster.sdk.notebook.live import LiveOutput

if TYPE_CHECKING:
    from collections.abc import Iterable

Point = tuple[float, float]
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PAIR = re.compile(rf'["\']?([A-Za-z_][\w/.-]*)["\']?\s*[=:]\s*({_NUMBER})(?![\w.:%])')
_WORDS = re.compile(rf"\b((?i:step|epoch|iteration|loss|accuracy))\s+({_NUMBER})(?![\w.:%])")
_STEPS = ("step", "global_step", "iteration", "iter", "epoch")
_USUAL = re.compile(r"loss|acc|error|score|reward|perplexity|auc|f1", re.IGNORECASE)
_WIDTH, _HEIGHT, _MARGIN = 360, 160, 24
_REDRAW_SECONDS = 0.5
_MAX_POINTS = 600
"""Points that are drawn of one curve; a screen shows no more."""


@dataclass(frozen=True)
class Curves:
    """The curves of a job, by name: `curves.series["loss"]` is a list of (step, value)."""

    series: dict[str, list[Point]] = field(default_factory=dict)
    subject: str = field(default="", compare=False)
    """The job whose curves they are."""

    def __repr__(self) -> str:
        rows = (
            f"{name}: {points[0][1]:g} → {points[-1][1]:g} ({len(points)} points)"
            if len(points) > 1
            else f"{name}: {points[0][1]:g}"
            for name, points in self.series.items()
        )
        return "\n".join(rows) or "no curves: no line of the log has a number with a name"

    def _repr_html_(self) -> str:
        if not self.series:
            return f"<div>{escape(repr(self))}</div>"
        return f"<div>{''.join(_drawn(*row) for row in self.series.items())}</div>"

    def _ipython_display_(self) -> None:
        output = LiveOutput(self.subject)
        if not output.enabled:
            print(self)  # noqa: T201 - the terminal of IPython
        elif not output.is_repeated:  # `job.curves(follow=True)` may have drawn them
            output.show(self)


class CurveReader:
    """Collects the points of lines."""

    def __init__(self, subject: str = "") -> None:
        self._subject = subject
        self._series: dict[str, list[Point]] = {}

    def add(self, line: str) -> bool:
        """Take the points of a line; whether it has any."""
        values = {name: float(text) for name, text in _WORDS.findall(line)}
        values |= {name: float(text) for name, text in _PAIR.findall(line)}
        step = next((values[name] for name in values if name.lower() in _STEPS), None)
        found = {name: value for name, value in values.items() if name.lower() not in _STEPS}
        for name, value in found.items():
            points = self._series.setdefault(name, [])
            points.append((len(points) if step is None else step, value))
        return bool(found)

    def curves(self, names: tuple[str, ...] = ()) -> Curves:
        """The curves of these names; without names those that are usual, or else all.

        Without names, a single point is not a curve.
        """
        series = {name: points for name, points in self._series.items() if len(points) > 1}
        if names:
            series = {name: self._series[name] for name in names if name in self._series}
        elif usual := {name: points for name, points in series.items() if _USUAL.search(name)}:
            series = usual
        return Curves({name: list(points) for name, points in series.items()}, self._subject)


def read_curves(
    lines: Iterable[str], names: tuple[str, ...], *, subject: str, live: bool
) -> Curves:
    """The curves of these lines; `live` redraws them in a notebook while the lines arrive."""
    reader, output, drawn = CurveReader(subject), LiveOutput(subject), 0.0
    for line in lines:
        is_due = time.monotonic() > drawn + _REDRAW_SECONDS
        if reader.add(line) and live and output.enabled and is_due:
            output.show(reader.curves(names))
            drawn = time.monotonic()
    curves = reader.curves(names)
    if live:
        output.show(curves)
    return curves


def _drawn(name: str, points: list[Point]) -> str:
    """One curve as SVG, with its name, its range and its last value."""
    shown = points[:: max(1, len(points) // _MAX_POINTS)]
    shown = shown if shown[-1] == points[-1] else [*shown, points[-1]]
    left, right = min(x for x, _ in shown), max(x for x, _ in shown)
    low, high = min(y for _, y in shown), max(y for _, y in shown)
    width, height = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
    path = " ".join(
        f"{_MARGIN + width * (x - left) / ((right - left) or 1):.1f},"
        f"{_HEIGHT - _MARGIN - height * (y - low) / ((high - low) or 1):.1f}"
        for x, y in shown
    )
    texts = (
        (_MARGIN, 14, f"{name} {points[-1][1]:g}"),
        (_MARGIN, _HEIGHT - 8, f"{left:g}"),
        (_WIDTH - 3 * _MARGIN, _HEIGHT - 8, f"{right:g}"),
        (_WIDTH - 5 * _MARGIN, 14, f"{low:g} … {high:g}"),
    )
    labels = "".join(
        f'<text x="{x}" y="{y}" font-size="11" fill="currentColor">{escape(text)}</text>'
        for x, y, text in texts
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(name)}">'
        f'<polyline points="{path}" fill="none" stroke="#1a73e8" stroke-width="1.5"/>'
        f"{labels}</svg>"
    )
