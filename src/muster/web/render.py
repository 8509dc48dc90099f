"""Templates: text of the cluster is escaped, addresses are encoded, nothing is marked safe."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from muster.jobs.view import units
from muster.web import static_files, urls
from muster.web.views import models

FOLDER = Path(__file__).parent / "templates"


def text(template: str, **variables: Any) -> str:
    """A template, rendered."""
    return _environment().get_template(template).render(**variables)


def prepare() -> None:
    """Compile the template that a reader sees first, while nobody waits for it yet."""
    _environment().get_template("loading.html")
    _environment().get_template("base.html")


@cache
def parts() -> frozenset[str]:
    """The templates of parts of pages, `_NAME.html`."""
    return frozenset(path.name for path in FOLDER.glob("_*.html"))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(
        job_url=urls.job_url,
        model_url=urls.model_url,
        static=static_files.url,
        url=urls.url,
    )
    environment.filters.update(
        clock=_clock,
        count=_count,
        duration=units.duration,
        local_time=units.local_time,
        moment=_moment,
        number="{:,}".format,
        tensor_type=models.tensor_type,
    )
    return environment


def _count(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _moment(moment: datetime) -> str:
    """A time for the attribute `datetime`, which the browser shows in its own time zone."""
    return units.in_zone(moment, UTC).isoformat(timespec="seconds")


def _clock(moment: datetime, form: str) -> str:
    """The time of day where the dashboard runs."""
    return units.in_zone(moment).strftime(form)
