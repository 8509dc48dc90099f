"""A scheduler that only shows what it would do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from muster.contract.gang import GangKey
from muster.scheduler.daemon import Options, Service
from muster.scheduler.decisions.decision import Bind, Delete, Report
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import node, pod

if TYPE_CHECKING:
    from pathlib import Path

KEY = GangKey("volcano", "default", "g")


async def test_a_shadow_logs_every_action_instead_of_carrying_it_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client: Any = object()  # whatever is asked of it fails
    service = Service(client, Settings(), Options(shadow=True), None)
    member = pod("g-0", group="g")

    with caplog.at_level(logging.INFO):
        service.bind(Bind(KEY, "p-1", ((member, "n1"),), "p-1/1"))
        service.delete(Delete(KEY, (member,), "half-bound", "Released"))
        service.report(Report(KEY, Reason("NotEnoughRoom", "short 1 cpu")))

    assert "would bind default/g: {'g-0': 'n1'}" in caplog.text
    assert "would delete ['g-0']" in caplog.text
    assert "would report default/g: NotEnoughRoom: short 1 cpu" in caplog.text


@pytest.mark.looptime
async def test_a_waiting_pod_is_tried_again_when_the_settings_file_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client: Any = object()
    file = tmp_path / "settings.yaml"
    file.write_text("preempt: false\n")
    options = Options(shadow=True, config=file)
    service = Service(client, Settings(preempt=False), options, None)
    service.state.node_changed(None, node("n", gpus=1))
    service.state.pod_changed(None, pod("low", gpus=1, spec={"nodeName": "n"}))
    service.state.pod_changed(None, pod("high", gpus=1, priority=5))
    with caplog.at_level(logging.INFO):
        task = asyncio.create_task(service.run())
        await asyncio.sleep(60)  # pace: virtual
        assert "would delete" not in caplog.text
        file.write_text("preempt: true\n")
        await asyncio.sleep(60)  # pace: virtual
        task.cancel()

    assert "would delete ['low']" in caplog.text
