"""Services: all are headless here, so these cannot be compared with a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.local.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

SERVICES = "/api/v1/namespaces/default/services"
OUTSIDE = {
    "metadata": {"name": "a"},
    "spec": {"type": "NodePort", "ports": [{"port": 80}], "externalTrafficPolicy": "Local"},
}


async def test_a_service_that_becomes_internal_drops_its_external_fields(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        created = await api.send("POST", SERVICES, OUTSIDE)
        assert created.body["spec"]["ports"][0]["nodePort"]

        changed = await api.send("PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}, MERGE)

        assert changed.status == 200, changed.body
        assert "externalTrafficPolicy" not in changed.body["spec"]
        assert "nodePort" not in changed.body["spec"]["ports"][0]


async def test_a_service_can_be_written_back_as_it_was_read(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        created = await api.send("POST", SERVICES, OUTSIDE)

        again = await api.send("PUT", f"{SERVICES}/a", created.body)

        assert (again.status, again.body) == (200, created.body)


async def test_a_requested_address_is_in_both_fields(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        spec = {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}

        created = await api.send("POST", SERVICES, {"metadata": {"name": "a"}, "spec": spec})

        assert created.body["spec"]["clusterIPs"] == ["10.0.0.7"]
