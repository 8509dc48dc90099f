"""Deletions: marked first, some at a time, retried until the pod is gone."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from kubekit.errors import MusterError
from kubekit.objects.meta import find_condition
from kubekit.request_errors import Conflict, Forbidden, NotFound, ServerError, Unreachable
from muster.contract.gang_dialects import single_pod_gang
from muster.scheduler.decisions.decision import Delete
from muster.scheduler.effects.deleter import IN_FLIGHT, LONGEST_PAUSE
from tests.muster.scheduler.builders import pod
from tests.muster.scheduler.deleting_cluster import Server, full_server, wants_room
from tests.waiting import eventually

pytestmark = pytest.mark.looptime
DENIED = Forbidden("not allowed to delete pods x in namespace default: policy", status=403)


async def test_only_a_limited_number_of_deletions_are_in_flight() -> None:
    server = await full_server()
    async with server.running():
        wants_room(server)
        await server.settle(2)

    assert server.most == IN_FLIGHT
    assert not server.bound("low")
    assert len(server.bound("high")) == 20


async def test_victims_get_the_disruption_condition_before_they_are_deleted() -> None:
    server = await full_server()
    async with server.running():
        wants_room(server)
        await server.settle(2)

    assert len(server.gone) == 40
    for victim in server.gone:
        condition = find_condition(victim.status.conditions, "DisruptionTarget")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
        assert "default/high" in condition.message


async def test_an_outage_during_a_preemption_leaves_no_victim_behind() -> None:
    server = await full_server()
    async with server.running():
        wants_room(server)
        await eventually(lambda: len(server.bound("low")) < 40, every=0.001)
        server.denies = lambda verb, name: Unreachable("connection refused")
        await server.settle(25)
        assert server.bound("low")
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)

    assert not server.bound("low")
    assert len(server.bound("high")) == 20


async def test_a_deletion_that_a_policy_rejects_is_reported_and_retried() -> None:
    server = await full_server()
    server.denies = lambda verb, name: DENIED if (verb, name) == ("delete", "low-7") else None
    async with server.running():
        wants_room(server)
        await server.settle(5)
        assert set(server.bound("low")) == {"low-7"}, "one that fails holds up nobody"
        tried = server.times("delete", "low-7")
        await server.settle(60)
        pauses = [b - a for a, b in pairwise(tried)]
        assert pauses == sorted(pauses)
        assert 10 <= len(server.times("delete", "low-7")) - len(tried) <= 13
        assert len(server.times("mark", "low-7")) == 2, "controllers take marks back"
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)

    assert not server.bound("low")
    assert server.failures == [("low-7", str(DENIED)), ("low-7", "")]


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("not allowed to patch pods/status x in namespace default", status=403),
        NotFound("not found", status=404),
        Conflict("written by another", status=409),
        ServerError("a webhook is down", status=500),
    ],
)
async def test_pods_that_cannot_be_marked_are_deleted_anyway(
    error: MusterError, caplog: pytest.LogCaptureFixture
) -> None:
    server = await full_server()
    server.denies = lambda verb, name: error if verb == "mark" else None
    with caplog.at_level(logging.WARNING, "muster.scheduler.effects.deleter"):
        async with server.running():
            wants_room(server)
            await server.settle(8)

    assert not server.bound("low")
    assert len(caplog.messages) <= 1, "one line for the right that is missing"


async def test_no_pod_is_deleted_without_the_lead_and_the_rest_is_deleted_once_it_is_back() -> None:
    server = await full_server()
    async with server.running():
        wants_room(server)
        await eventually(lambda: len(server.bound("low")) <= 30, every=0.001)
        server.leads = False
    left, calls = len(server.bound("low")), len(server.calls)
    assert left
    async with server.running():
        await server.settle(1)
        assert len(server.calls) == calls
        server.leads = True
        await server.settle(LONGEST_PAUSE + 1)

    assert not server.bound("low")


async def test_a_new_pod_of_the_same_name_is_not_deleted() -> None:
    server = Server()
    old, new = pod("p"), pod("p")
    server.add(new)
    async with server.running():
        server.deleter.submit(Delete(single_pod_gang(old), (old,), "why", "Released"))
        await server.settle(5)

    assert server.gone == []
    assert len(server.times("delete", "p")) == 1
