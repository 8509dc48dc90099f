"""A scheduler that only shows what it would do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from muster.api.gang_dialects import GangKey
from muster.scheduler.decisions.decision import Bind, Delete, Report
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.run import Options, Service
from muster.scheduler.settings import Settings
from tests.scheduler.builders import pod

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
