"""Services: what two requests at once do, a full range, and services of an earlier cluster.

The conformance suite compares the rest with a real server.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network, ip_address
from typing import TYPE_CHECKING, Any

from localkube.apiserver.server import ApiServer
from tests.localkube.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

SERVICES = "/api/v1/namespaces/default/services"
OUTSIDE = {
    "metadata": {"name": "a"},
    "spec": {"type": "NodePort", "ports": [{"port": 80}], "externalTrafficPolicy": "Local"},
}
SMALL, OTHER = IPv4Network("10.5.0.0/29"), IPv4Network("10.6.0.0/29")


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


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


async def test_requests_at_the_same_time_get_different_addresses_until_the_range_is_full(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path, service_range=SMALL) as api:
        # Six addresses, of which `kubernetes` has the first.
        names = [f"s{i}" for i in range(7)]
        created = await asyncio.gather(
            *(api.send("POST", SERVICES, service(name)) for name in names)
        )
        full = [answer for answer in created if answer.status != 201]
        addresses = {a.body["spec"]["clusterIP"] for a in created if a.status == 201}

        assert addresses == {f"10.5.0.{i}" for i in range(2, 7)}
        assert [answer.status for answer in full] == [500, 500]
        assert "range is full" in full[0].body["message"]

        # A deleted service releases its address.
        gone = next(name for name, a in zip(names, created, strict=True) if a.status == 201)
        await api.send("DELETE", f"{SERVICES}/{gone}")
        assert (await api.send("POST", SERVICES, service("late"))).status == 201


async def test_of_two_requests_for_one_address_at_the_same_time_one_is_refused(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path, service_range=SMALL) as api:
        requests = (service(name, clusterIP="10.5.0.3") for name in ("a", "b"))
        answers = await asyncio.gather(*(api.send("POST", SERVICES, r) for r in requests))

        assert sorted(answer.status for answer in answers) == [201, 422]


async def test_services_move_when_the_range_has_changed(tmp_path: Path) -> None:
    async with running_server(tmp_path, service_range=SMALL) as api:
        await api.send("POST", SERVICES, service("a"))
        await api.send("POST", SERVICES, service("headless", clusterIP="None"))
        await api.send("POST", SERVICES, service("e", type="ExternalName", externalName="x"))

    async with running_server(tmp_path, service_range=OTHER) as api:
        found = await addresses_of(api)

    assert found["kubernetes"] == "10.6.0.1"
    assert ip_address(found["a"]) in OTHER
    assert (found["headless"], found["e"]) == ("None", "")


async def addresses_of(api: Any) -> dict[str, str]:
    items = (await api.send("GET", SERVICES)).body["items"]
    return {item["metadata"]["name"]: item["spec"].get("clusterIP", "") for item in items}


async def test_pods_find_the_api_at_the_service_kubernetes(tmp_path: Path) -> None:
    server = ApiServer(tmp_path, service_range=SMALL)
    await server.start(pod_address="10.4.0.1")
    try:
        port = server.port
        stored = [
            server.store.get(f"{collection}/default/kubernetes")
            for collection in ("services", "endpoints", "endpointslices.discovery.k8s.io")
        ]
    finally:
        await server.stop()

    texts = [entry.value.decode() for entry in stored if entry is not None]
    assert '"clusterIP":"10.5.0.1"' in texts[0]
    assert all('"10.4.0.1"' in text and str(port) in text for text in texts[1:])
