"""Templates: text of the cluster is escaped, addresses are built here, nothing is marked safe."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import jinja2

from muster.jobs.view import units
from muster.web import static_files

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "templates"
NAVIGATION: list[tuple[str, str]] = []
"""Path and title of the pages in the navigation; filled by `app`."""


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
        job_url=job_url,
        model_url=model_url,
        static=static_files.url,
        navigation=NAVIGATION,
        url=url,
    )
    environment.filters.update(
        clock=_clock,
        count=units.count,
        duration=units.duration,
        local_time=units.local_time,
        moment=_moment,
    )
    return environment


@lru_cache(maxsize=16384)  # the map of a big cluster has thousands of links
def job_url(namespace: str, kind: str, name: str) -> str:
    """The page of a job."""
    return "/jobs/" + "/".join(quote(part, safe="") for part in (namespace, kind, name))


def model_url(namespace: str, config_map: str) -> str:
    """The page of a model."""
    return f"/models/{quote(namespace, safe='')}/{quote(config_map, safe='')}"


def url(path: str, query: Mapping[str, object]) -> str:
    """A path with those variables that have a value."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _moment(moment: datetime) -> str:
    """A time for the attribute `datetime`, which the browser shows in its own time zone."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _clock(moment: datetime, form: str) -> str:
    """The time of day where the dashboard runs."""
    return moment.astimezone().strftime(form)
