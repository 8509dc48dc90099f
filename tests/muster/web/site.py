"""A dashboard in a test, as a browser without scripts sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape

import msgspec
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient

from kubekit.client import request
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import SERVICE_ACCOUNTS, Kind
from kubekit.objects.meta import Raw, key_of
from muster.contract.job_kinds import JOB_KINDS
from muster.web.access.gate import Policy
from muster.web.access.keys import new_token
from tests.muster.web.objects import job
from tests.waiting import eventually

_RBAC = "rbac.authorization.k8s.io/v1"
_ROLES: Kind[Raw] = Kind.of(_RBAC, "ClusterRole", dict, namespaced=False)
_BINDINGS: Kind[Raw] = Kind.of(_RBAC, "ClusterRoleBinding", dict, namespaced=False)
_ROLE_BINDINGS: Kind[Raw] = Kind.of(_RBAC, "RoleBinding", dict)
HTML = {"Accept": "text/html"}


@dataclass
class Site:
    client: TestClient[web.Request, web.Application]
    policy: Policy
    api: BlockingClient
    namespace: str
    endpoint: Endpoint

    @property
    def origin(self) -> str:
        return str(self.client.make_url("/")).rstrip("/")

    async def login(self) -> None:
        answer = await self.client.get("/", params={"token": new_token(self.policy.keys)})
        assert answer.status == 200

    async def get(self, path: str, *, status: int = 200, headers: Mapping[str, str] = HTML) -> str:
        """The text of a page."""
        answer = await self.client.get(path, headers={**HTML, **headers})
        text = await answer.text()
        assert answer.status == status, text
        return text

    async def page_with(self, path: str, *words: str) -> str:
        """The text of a page that has all these words; waits until it does."""

        async def text() -> str:
            page = await self.get(path)
            return page if all(word in page for word in words) else ""

        return await eventually(text)

    async def part(self, path: str, name: str) -> str:
        """One part of a page, as htmx fetches it."""
        return await self.get(path, headers={"HX-Request": "true", "HX-Target": name})

    async def csrf(self) -> str:
        match = re.search(r'data-csrf="([^"]+)"', await self.get("/jobs"))
        assert match is not None
        return match[1]

    async def post(self, path: str, data: bytes | dict[str, str], csrf: str = "") -> ClientResponse:
        """A change, as a page of the dashboard sends it."""
        headers = {"Origin": self.origin, "X-CSRF-Token": csrf or await self.csrf()}
        return await self.client.post(path, data=data, headers=headers)

    def service_account(self, name: str, *resources: str) -> str:
        """The authorization of a new service account that may read these resources."""
        self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace=self.namespace)
        if resources:
            self.grant(name, *resources)
        call = request.create(
            SERVICE_ACCOUNTS, {"spec": {}}, namespace=self.namespace, subresource="token", name=name
        )
        token = msgspec.json.decode(self.api.send(call).body)["status"]["token"]
        return f"Bearer {token}"

    def grant(self, account: str, *resources: str, namespace: str = "") -> None:
        """Let a service account read these resources, everywhere or in one namespace."""
        role: Raw = {"metadata": {"name": f"{self.namespace}-{account}-{namespace}".rstrip("-")}}
        rule = {"apiGroups": ["*"], "resources": list(resources), "verbs": ["list", "watch"]}
        self.api.create(_ROLES, {**role, "rules": [rule]})
        reference = {"apiGroup": _ROLES.group, "kind": _ROLES.kind, **role["metadata"]}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        binding = {**role, "roleRef": reference, "subjects": [subject]}
        self.api.create(_ROLE_BINDINGS if namespace else _BINDINGS, binding, namespace=namespace)

    def add_job(self, name: str, **options: object) -> Raw:
        """Create a job in the namespace of the test; nothing acts on it."""
        raw = job(name, namespace=self.namespace, **options)  # type: ignore[arg-type]
        kind = next(kind for kind in JOB_KINDS if kind.kind == raw["kind"])
        del raw["metadata"]["uid"], raw["metadata"]["creationTimestamp"]
        created = self.api.create(kind, raw)
        if status := raw.get("status"):
            return self.api.patch(kind, key_of(raw), {"status": status}, subresource="status")
        return created


def rows(page: str) -> list[list[str]]:
    """The text of each cell in the body of the page's first table."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    lines = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.DOTALL) for line in lines]
    return [[unescape(re.sub(r"<[^>]*>", " ", c)).strip() for c in line] for line in cells]
