"""The admin's token, impersonation, and the addresses the server listens on."""

from __future__ import annotations

import hmac
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from kubekit.request_errors import StatusError
from localkube.apiserver.access.authentication import Authenticator
from localkube.apiserver.server import ApiServer
from tests.localkube.apiserver.access.accounts import PODS, RBAC, token_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


async def test_a_user_needs_permission_to_impersonate_another(api: ApiClient) -> None:
    token = await token_for(api)
    headers = {"Impersonate-User": "jo", "Impersonate-Group": "system:masters"}

    as_master = await api.send("GET", PODS, **headers)
    as_jo = await api.send("GET", PODS, **{"Impersonate-User": "jo"})
    by_account = await api.send("GET", PODS, Authorization=f"Bearer {token}", **headers)
    no_user = await api.send("GET", PODS, **{"Impersonate-Group": "x"})

    assert [r.status for r in (as_master, as_jo, by_account, no_user)] == [200, 403, 403, 400]
    assert "cannot impersonate" in by_account.body["message"]


@pytest.mark.parametrize(
    "header", ["Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"]
)
async def test_a_user_to_be_who_is_not_utf8_is_refused(api: ApiClient, header: str) -> None:
    """The name would be in an answer, which is UTF-8."""
    headers = {"Authorization": f"Bearer {api.server.token}", "Impersonate-User": "jo"}
    with pytest.raises(StatusError) as refused:
        api.server.authenticator.user(CIMultiDictProxy(CIMultiDict(headers | {header: "\udce9"})))

    assert refused.value.status == 400
    assert "UTF-8" in str(refused.value)


async def test_the_admin_cannot_be_locked_out(api: ApiClient) -> None:
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        assert (await api.send("DELETE", path)).status == 200

    assert (await api.send("GET", PODS)).status == 200


async def test_the_admins_token_is_compared_in_constant_time(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare_digest = hmac.compare_digest

    def recording(token: bytes, admin_token: bytes) -> bool:
        compared.append((token, admin_token))
        return compare_digest(token, admin_token)

    monkeypatch.setattr("hmac.compare_digest", recording)
    secret = api.server.token
    for token in ("x", secret[:-1], f"{secret[:-1]}\udce9", secret):
        headers = CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {token}"}))
        with suppress(StatusError):
            api.server.authenticator.user(headers)

    assert [admin_token for _, admin_token in compared] == [api.server.token.encode()] * 4


def listening(port: int) -> set[str]:
    connections = psutil.Process().net_connections(kind="tcp")
    return {c.laddr.ip for c in connections if c.status == "LISTEN" and c.laddr.port == port}


async def test_the_server_listens_only_on_loopback_and_the_given_addresses(tmp_path: Path) -> None:
    alone, both = ApiServer(tmp_path / "a"), ApiServer(tmp_path / "b")
    await alone.start()
    await both.start(extra_addresses=("127.0.0.2",))
    try:
        assert listening(alone.port) == {"127.0.0.1"}
        assert listening(both.port) == {"127.0.0.1", "127.0.0.2"}
    finally:
        await alone.stop()
        await both.stop()


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic x"}])
async def test_a_request_without_a_token_is_never_the_admins(
    api: ApiClient, header: dict[str, str]
) -> None:
    server = api.server
    authenticator = Authenticator("", server.tokens, server.authorizer)

    with pytest.raises(StatusError) as error:
        authenticator.user(CIMultiDictProxy(CIMultiDict(header)))
    assert error.value.status == 401
