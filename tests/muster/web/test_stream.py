"""`/stream`: a browser learns which topics changed, and gets the data of feeds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse

from muster.web.access.gate import Policy
from muster.web.cluster.live_cluster import LiveCluster
from muster.web.pages import stream
from tests.muster.web.site import Site


async def event(answer: ClientResponse) -> tuple[str, Any]:
    """The next event of a stream."""
    name = ""
    async for line in answer.content:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            return name, json.loads(line[6:])
    raise AssertionError("the stream has ended")


async def subscribe(site: Site, answer: ClientResponse, topics: dict[str, str]) -> None:
    name, data = await event(answer)
    assert name == "hello"
    reply = await site.post(f"/stream/{data['id']}/topics", json.dumps(topics).encode())
    assert reply.status == 204, await reply.text()


async def test_a_change_of_a_topic_is_reported(site: Site) -> None:
    await site.get("/jobs")
    async with site.client.get("/stream") as answer:
        assert answer.content_type == "text/event-stream"
        await subscribe(site, answer, {f"job:{site.namespace}/new": ""})
        assert (await event(answer))[0] == "changed"  # the page had no version

        site.add_job("other")
        site.add_job("new")
        name, data = await event(answer)
        assert (name, data["topics"]) == ("changed", [f"job:{site.namespace}/new"])


async def test_topics_of_another_session_cannot_be_set(site: Site) -> None:
    async with site.client.get("/stream") as answer:
        _, data = await event(answer)
        site.client.session.cookie_jar.clear()
        await site.login()
        reply = await site.post(f"/stream/{data['id']}/topics", b"{}")
        assert reply.status == 404


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"a": 1}'])
async def test_topics_that_make_no_sense_are_refused(site: Site, body: bytes) -> None:
    async with site.client.get("/stream") as answer:
        _, data = await event(answer)
        reply = await site.post(f"/stream/{data['id']}/topics", body)
        assert reply.status == 400


@pytest.mark.parametrize("policy", [Policy(sign_in=True)])
async def test_one_user_leaves_streams_to_others(
    site: Site, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_STREAMS_OF_ONE_USER", 2)
    owner = {"Authorization": site.endpoint.credentials.get().authorization}
    other = {"Authorization": site.service_account("other", "pods")}
    async with (
        site.client.get("/stream", headers=owner) as first,
        site.client.get("/stream", headers=owner) as second,
    ):
        assert (first.status, second.status) == (200, 200)

        refused = await site.client.get("/stream", headers=owner)

        assert refused.status == 429
        assert "at most 2 browsers of one user" in await refused.text()
        async with site.client.get("/stream", headers=other) as answer:
            assert answer.status == 200


async def test_the_owner_of_a_machine_has_all_its_streams(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_STREAMS_OF_ONE_USER", 0)
    monkeypatch.setattr(stream, "MAX_STREAMS", 1)
    async with site.client.get("/stream") as answer:
        assert answer.status == 200

        assert (await site.client.get("/stream")).status == 429


async def test_a_feed_runs_while_it_is_wanted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def count(_: LiveCluster, argument: str) -> AsyncIterator[Any]:
        try:
            for number in range(int(argument)):
                yield [number, "</script>\n"]
        finally:
            ended.append(argument)

    monkeypatch.setitem(stream.FEEDS, "count", count)
    async with site.client.get("/stream") as answer:
        await subscribe(site, answer, {"count:2": ""})

        for number in range(2):
            message = {"topic": "count:2", "message": [number, "</script>\n"]}
            assert await event(answer) == ("data", message)
    assert ended == ["2"]
