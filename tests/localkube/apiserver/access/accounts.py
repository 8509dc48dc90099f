"""Service accounts for tests: their tokens, roles and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient, Reply

NS = "/api/v1/namespaces/default"
PODS, ACCOUNTS = f"{NS}/pods", f"{NS}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def token_for(api: ApiClient, name: str = "default", **spec: Any) -> str:
    """A new token of a service account."""
    reply = await api.send("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    assert reply.status == 201, reply.body
    return str(reply.body["status"]["token"])


async def send_as(api: ApiClient, token: str, method: str, path: str, body: Any = None) -> Reply:
    """A request with this token."""
    return await api.send(method, path, body, Authorization=f"Bearer {token}")


async def grant(api: ApiClient, role: str, account: str = "default") -> None:
    """Bind a service account to a cluster role in its namespace."""
    reply = await api.send(
        "POST",
        f"{RBAC}/namespaces/default/rolebindings",
        {
            "metadata": {"name": f"{account}-{role}"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        },
    )
    assert reply.status == 201, reply.body
