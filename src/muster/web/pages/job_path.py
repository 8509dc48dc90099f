"""The job that an address names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import Key
from muster.web.render import job_url

if TYPE_CHECKING:
    from aiohttp import web


class JobPath(NamedTuple):
    key: Key
    kind: str

    @classmethod
    def of(cls, request: web.Request) -> JobPath:
        info = request.match_info
        return cls(Key(info["namespace"], info["name"]), info["kind"])

    @property
    def url(self) -> str:
        return job_url(self.key.namespace, self.kind, self.key.name)
