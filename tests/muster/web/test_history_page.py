"""`/history` on a local API server."""

from __future__ import annotations

import re

import pytest

from kubekit.objects.meta import key_of
from muster.contract.job_kinds import TFJOBS
from muster.web.access.gate import Policy
from tests.muster.web.objects import HOSTILE
from tests.muster.web.site import HTML, Site, rows


async def test_a_job_has_a_bar_a_row_and_a_share(site: Site) -> None:
    job = site.add_job("trained", gpus=2, state="Succeeded")
    owner = {"metadata": {"annotations": {"arena.kubeflow.org/username": HOSTILE}}}
    site.api.patch(TFJOBS, key_of(job), owner)
    address = f"/jobs/{site.namespace}/TFJob/trained"

    page = await site.page_with("/history", address, "window.hacked")
    assert "<script>window" not in page
    assert "<img" not in page
    assert re.search(rf'<a class="lane-name"[^>]* href="{address}"', page)
    assert "A deleted job is not here" in page
    assert "style=" not in page
    part = await site.part("/history?hours=1&by=node", "history")
    assert part.lstrip().startswith('<section id="history"')
    assert 'data-curves=\'{"gpus"' in part
    tables = await site.part("/history", "history_tables")
    assert any(row[:3] == [site.namespace, HOSTILE, "1"] for row in rows(tables))


@pytest.mark.parametrize("policy", [Policy(proxy_hosts=("127.0.0.1",))])
async def test_a_user_without_events_and_nodes_sees_the_jobs(site: Site) -> None:
    site.add_job("mine", state="Succeeded")
    bearer = site.service_account("reader", "tfjobs", "pods")

    page = await site.get("/history", headers={"Authorization": bearer, **HTML})
    assert "mine" in page
    assert "you may not list them: events, jaxjobs" in page
