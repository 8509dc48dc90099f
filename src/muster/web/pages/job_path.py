"""The job that an address or a topic names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.meta import Key
from muster.jobs.job_kinds import JOB_KIND_BY_NAME
from muster.web.urls import job_url

if TYPE_CHECKING:
    from aiohttp import web


_KINDS = {kind.lower(): kind for kind in JOB_KIND_BY_NAME}


class JobPath(NamedTuple):
    key: Key
    kind: str

    @classmethod
    def of(cls, request: web.Request) -> JobPath:
        info = request.match_info
        return cls.of_parts(info["namespace"], info["kind"], info["name"])

    @classmethod
    def of_parts(cls, namespace: str = "", kind: str = "", name: str = "", *_: str) -> JobPath:
        """From the parts of `NAMESPACE/KIND/NAME/…`; a missing part is empty, and names no job.

        The kind is in any case: commands print `tfjob/NAME`.
        """
        return cls(Key(namespace, name), _KINDS.get(kind.lower(), kind))

    @property
    def url(self) -> str:
        return job_url(self.key.namespace, self.kind, self.key.name)
