"""The addresses of pages.

Kept apart because commands print some of them, and must not load the dashboard's libraries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping


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
