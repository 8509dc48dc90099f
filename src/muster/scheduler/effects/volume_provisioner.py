"""Writes the volume or node chosen for each claim, one claim after the other.

An existing volume is given to a claim by the volume's `claimRef`. For a volume to be provisioned,
an annotation on the claim names the node. A choice that cannot be written is undone in the state,
and its gang is considered again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubekit.control.leader_election import LeaseLost
from kubekit.errors import MusterError
from kubekit.objects.storage import SELECTED_NODE, VOLUME_CLAIMS, VOLUMES, claim_ref_patch
from kubekit.request_errors import Forbidden, NotFound
from muster.scheduler.effects.reporter import Refusals, report_to_nobody
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.objects.meta import Key
    from muster.scheduler.cluster.volumes import VolumeChoice
    from muster.scheduler.decisions.decision import Provision
    from muster.scheduler.effects.reporter import ReportRight
    from muster.scheduler.state import State

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
LONG_RETRY_SECONDS = 10.0
"""After a forbidden write, since a person has to change the rights, and after a bug."""


class Provisioner:
    """Volume choices to be written. `may_act` is called before each write."""

    def __init__(
        self,
        client: Client,
        state: State,
        wake: Callable[[], None],
        *,
        may_act: Callable[[], bool],
        report_right: ReportRight = report_to_nobody,
    ) -> None:
        self._client, self._state, self._wake, self._may_act = client, state, wake, may_act
        self._refusals = Refusals(log, report_right)
        self._queue: asyncio.Queue[Provision] = asyncio.Queue()

    def submit(self, provision: Provision) -> None:
        self._queue.put_nowait(provision)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                await self._take(await self._queue.get())
        finally:
            # The next term decides anew. It may submit choices before it runs this.
            self._queue = asyncio.Queue()

    async def _take(self, provision: Provision) -> None:
        for key, choice in provision.claims:
            with isolated("volume", key) as guard:
                await self._try(provision, key, choice)
            if guard.error is not None:
                self._try_again(provision, key, LONG_RETRY_SECONDS)

    async def _try(self, provision: Provision, key: Key, choice: VolumeChoice) -> None:
        try:
            await self._write(key, choice)
        except Forbidden as error:
            self._try_again(provision, key, LONG_RETRY_SECONDS)
            self._refusals.take(error, provision.gang)
        except MusterError as error:
            log.warning("claim %s: the choice of a volume was not written: %s", key, error)
            self._try_again(provision, key, RETRY_SECONDS)

    def _try_again(self, provision: Provision, key: Key, seconds: float) -> None:
        when = asyncio.get_running_loop().time() + seconds
        self._state.not_provisioned(provision.gang, key, when)
        self._wake()

    async def _write(self, key: Key, choice: VolumeChoice) -> None:
        if not self._may_act():
            raise LeaseLost("this process no longer leads")
        claim = self._state.snapshot.volumes.claims.get(key)
        volume = self._state.snapshot.volumes.volumes.get(choice.volume)
        if claim is None or (choice.volume and volume is None):
            raise NotFound("the claim or the chosen volume is gone")
        if volume is None:
            annotations = {"metadata": {"annotations": {SELECTED_NODE: choice.node}}}
            await self._client.patch(VOLUME_CLAIMS, key, annotations)
        else:
            await self._client.patch(VOLUMES, volume.metadata.key, claim_ref_patch(volume, claim))
