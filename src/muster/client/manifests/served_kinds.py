"""From apiVersion and kind to the resource's path, by discovery.

The answers of the cluster are cached for one command.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kubekit.client import discovery
from kubekit.client.error_response import HOW_TO_INSTALL_JOB_KINDS
from kubekit.errors import nearest
from kubekit.request_errors import NotFound
from muster.contract.job_kinds import JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw

CRD = "CustomResourceDefinition"
DISCOVERY_TIMEOUT = 10.0


class ServedKinds:
    """The kinds that a cluster serves.

    A server needs a moment until it serves a new CRD: after `expect`, a missing kind is looked for
    again until it is served or the time is up.
    """

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._known: dict[str, dict[str, Kind[Raw]]] = {}
        self._expected: set[str] = set()

    def find(self, api_version: str, kind: str) -> Kind[Raw]:
        """The resource of that kind; NotFound says which group or kind is missing."""
        remaining = DISCOVERY_TIMEOUT if api_version.partition("/")[0] in self._expected else 0.0
        while True:
            try:
                return self._find(api_version, kind)
            except NotFound:
                self._known.pop(api_version, None)
                if remaining <= 0:
                    raise
                remaining -= 0.1
                time.sleep(0.1)

    def expect(self, crd: Raw) -> None:
        """Remember that this CRD was sent."""
        self._expected.add(str((crd.get("spec") or {}).get("group")))

    def _find(self, api_version: str, kind: str) -> Kind[Raw]:
        try:
            if api_version not in self._known:
                response = self._client.send(discovery.resources_request(api_version))
                kinds = discovery.kinds(response.body, api_version, dict)
                self._known[api_version] = {served.kind: served for served in kinds}
            return self._known[api_version][kind]
        except (NotFound, KeyError):
            raise _missing(api_version, kind, self._known.get(api_version, ())) from None


def _missing(api_version: str, kind: str, served: Iterable[str]) -> NotFound:
    ours = [job.kind for job in JOB_KINDS if job.api_version == api_version]
    known = next((job.api_version for job in JOB_KINDS if job.kind == kind), "")
    if kind == "Template":
        hint = "Templates are for `arena process -f FILE | arena apply -f -`."
    elif kind not in ours and (similar := nearest(kind, [*served, *ours])):
        hint = f"Did you mean {similar}?"
    elif known not in ("", api_version):
        hint = f"Did you mean {known}?"
    elif api_version.startswith("kubeflow.org/"):
        hint = HOW_TO_INSTALL_JOB_KINDS
    else:
        hint = "Is its CustomResourceDefinition installed?"
    return NotFound(f"the cluster has no {kind} in {api_version}", hint=hint)
