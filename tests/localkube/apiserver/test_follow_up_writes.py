"""What follows from a write is there when the write is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient

NAMESPACES = "/api/v1/namespaces"


async def test_concurrently_created_namespaces_have_their_accounts_when_they_are_answered(
    api: ApiClient,
) -> None:
    async def account_status(name: str) -> int:
        created = await api.send("POST", NAMESPACES, {"metadata": {"name": name}})
        assert created.status == 201, created.body
        account = f"{NAMESPACES}/{name}/serviceaccounts/default"
        return (await api.send("GET", account)).status

    statuses = await asyncio.gather(*(account_status(f"ns-{i}") for i in range(30)))

    assert statuses == [200] * 30
