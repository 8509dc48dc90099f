"""The client's own behaviour: pages, limits, and when it sends a request again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubekit.client.client import Client
from kubekit.client.request import Request, Response
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import (
    ApiError,
    Conflict,
    Gone,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tests.api_in_memory import ApiInMemory, status_response
from tests.kubekit.builders import pod

pytestmark = pytest.mark.looptime

X = Key("ns", "x")
BUSY = status_response(429, "TooManyRequests", "slow down", **{"Retry-After": "2"})
FAILED = status_response(500, "InternalError", "oops")


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_reads_and_writes_wait_for_a_busy_server() -> None:
    server = ApiInMemory()
    client = Client(server)
    server.answers.extend([BUSY, BUSY])
    await client.create(PODS, pod("x"))
    assert 4.0 <= now() <= 5.1
    server.answers.append(BUSY)
    await client.get(PODS, X)
    assert len(server.requests) == 5


async def test_the_client_gives_up_when_the_server_stays_busy() -> None:
    server = ApiInMemory()
    server.answers.extend([BUSY] * 50)
    with pytest.raises(TooManyRequests) as busy:
        await Client(server).list(PODS)
    assert busy.value.retry_after == 2.0
    assert len(server.requests) == 6


async def test_one_busy_response_delays_every_request() -> None:
    server = ApiInMemory()
    server.add(pod("x"))
    client = Client(server)
    server.answers.append(BUSY)
    times = []

    async def read() -> None:
        await client.get(PODS, X)
        times.append(now())

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        await asyncio.sleep(0.1)
        group.create_task(read())
    assert min(times) >= 2.0
    assert max(times) < 3.0


async def test_a_write_that_may_have_happened_is_never_sent_again() -> None:
    server = ApiInMemory()
    server.answers.append(FAILED)
    with pytest.raises(ServerError):
        await Client(server).create(PODS, pod("x"))
    server.answers.append(Unreachable("gone"))
    with pytest.raises(Unreachable):
        await Client(server).bind(X, uid="u", node="n")
    assert len(server.requests) == 2


async def test_a_read_is_retried_after_the_given_time() -> None:
    server = ApiInMemory()
    server.add(pod("x"))
    server.answers.append(status_response(503, "ServiceUnavailable", "", **{"Retry-After": "1"}))
    await Client(server).get(PODS, X)
    server.answers.append(FAILED)
    with pytest.raises(ServerError, match="oops"):
        await Client(server).get(PODS, X)


async def test_conflicts_are_raised_at_once() -> None:
    server = ApiInMemory()
    server.answers.append(status_response(409, "Conflict", "changed"))
    with pytest.raises(Conflict):
        await Client(server).patch(PODS, X, {})


async def test_no_more_requests_are_in_flight_than_allowed() -> None:
    class Counting(ApiInMemory):
        flying = most = 0

        async def send(self, request: Request) -> Response:
            self.flying += 1
            self.most = max(self.most, self.flying)
            await asyncio.sleep(1)
            self.flying -= 1
            return await super().send(request)

    server = Counting()
    server.add(pod("x"))
    client = Client(server, max_in_flight=3)
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(client.get(PODS, X))
    assert server.most == 3
    assert now() == pytest.approx(4.0, abs=0.1)


async def test_a_list_whose_pages_expire_is_read_again_without_pages() -> None:
    server = ApiInMemory()
    for number in range(10):
        server.add(pod(f"p{number}"))

    def expire(_: Request) -> None:
        server.answers.append(status_response(410, "Expired", "the continue token is too old"))

    server.answers.append(expire)
    listing = await Client(server).list(PODS, page=4)
    assert len(listing.items) == 10
    assert [dict(r.query).get("limit") for r in server.requests] == ["4", "4", None]
    server.answers.append(status_response(410, "Expired", "gone"))
    with pytest.raises(Gone):
        await Client(server).list(PODS)


async def test_items_of_raw_lists_have_kind_and_api_version() -> None:
    server = ApiInMemory()
    server.add(pod("x"))
    (item,) = (await Client(server).list(PODS.read_as(dict))).items
    assert (item["apiVersion"], item["kind"]) == ("v1", "Pod")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": 5}'])
async def test_a_response_that_is_no_object_is_an_api_error(body: bytes) -> None:
    server = ApiInMemory()
    server.answers.extend([Response(200, {}, body), Response(200, {}, body)])
    with pytest.raises(ApiError, match=r"cannot be decoded|is not a list"):
        await Client(server).list(PODS)
    if body != b'{"items": 5}':
        with pytest.raises(ApiError, match="cannot be decoded"):
            await Client(server).get(PODS, X)


async def test_an_empty_list_may_be_written_as_null() -> None:
    server = ApiInMemory()
    body: dict[str, Any] = {"metadata": {"resourceVersion": "5"}, "items": None}
    server.answers.append(Response(200, {}, json.dumps(body).encode()))
    listing = await Client(server).list(PODS)
    assert (listing.items, listing.resource_version) == ([], "5")
