"""Volume choices that can no longer be written when their turn comes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kubekit.objects.meta import Key
from kubekit.request_errors import Forbidden
from kubekit.rights import MissingRight, Rule
from muster.contract.gang import GangKey
from muster.scheduler.cluster.volumes import VolumeChoice
from muster.scheduler.decisions.decision import Provision
from muster.scheduler.effects.volume_provisioner import Provisioner
from tests.muster.scheduler.volume_builders import claim, cluster_of

pytestmark = pytest.mark.looptime


NO_RIGHT = MissingRight("muster-scheduler", Rule(("",), ("persistentvolumeclaims",), ("patch",)))


class RecordingClient:
    def __init__(self) -> None:
        self.patched: list[Key] = []

    async def patch(self, kind: Any, key: Key, body: Any) -> None:
        self.patched.append(key)


@pytest.mark.parametrize(
    ("volume", "leads", "written"), [("", True, True), ("deleted", True, False), ("", False, False)]
)
async def test_a_choice_is_not_written_once_its_volume_is_gone_or_the_lead_is_lost(
    volume: str, leads: bool, written: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, client = cluster_of("n1"), RecordingClient()
    any_client: Any = client
    claim(cluster, "data")
    data = Key("default", "data")
    cluster.state.snapshot.volumes.choose({data: VolumeChoice("n1", volume)})
    provisioner = Provisioner(any_client, cluster.state, lambda: None, may_act=lambda: leads)
    task = asyncio.create_task(provisioner.run())
    with caplog.at_level(logging.WARNING):
        choice = (data, VolumeChoice("n1", volume))
        provisioner.submit(Provision(GangKey("pod", "default", "p"), (choice,)))
        await asyncio.sleep(0.1)
    task.cancel()

    assert client.patched == ([data] if written else [])
    assert (data in cluster.state.snapshot.volumes.chosen) == written
    assert ("no longer leads" in caplog.text) == (not leads)


class RightlessClient(RecordingClient):
    async def patch(self, kind: Any, key: Key, body: Any) -> None:
        await super().patch(kind, key, body)
        error = Forbidden(str(NO_RIGHT), status=403)
        error.missing_right = NO_RIGHT
        raise error


async def test_a_missing_right_is_told_to_the_gang_and_tried_again_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, gang = cluster_of("n1"), GangKey("pod", "default", "p")
    any_client: Any = RightlessClient()
    claim(cluster, "data")
    provision = Provision(gang, ((Key("default", "data"), VolumeChoice("n1", "")),))
    told: list[Any] = []
    provisioner = Provisioner(
        any_client,
        cluster.state,
        lambda: None,
        may_act=lambda: True,
        report_right=lambda *words: told.append(words),
    )
    task = asyncio.create_task(provisioner.run())
    for _ in range(2):
        provisioner.submit(provision)
    await asyncio.sleep(0.1)
    task.cancel()

    assert told == [(gang, (), NO_RIGHT)] * 2
    assert caplog.messages == [str(NO_RIGHT)]
    due = cluster.state.line.next_timer()
    assert due is not None
    assert due > asyncio.get_running_loop().time() + 5


async def test_choices_of_the_first_round_are_written_and_those_of_an_earlier_term_are_not() -> (
    None
):
    """The loop decides as soon as the process leads, which may be before the first write."""
    cluster, client = cluster_of("n1"), RecordingClient()
    any_client: Any = client
    provisioner = Provisioner(any_client, cluster.state, lambda: None, may_act=lambda: True)

    def submit(name: str) -> None:
        claim(cluster, name)
        choice = (Key("default", name), VolumeChoice("n1", ""))
        provisioner.submit(Provision(GangKey("pod", "default", "p"), (choice,)))

    submit("first")
    term = asyncio.create_task(provisioner.run())
    await asyncio.sleep(0.1)
    submit("left")
    term.cancel()
    await asyncio.gather(term, return_exceptions=True)
    submit("second")
    term = asyncio.create_task(provisioner.run())
    await asyncio.sleep(0.1)
    term.cancel()

    assert client.patched == [Key("default", "first"), Key("default", "second")]
