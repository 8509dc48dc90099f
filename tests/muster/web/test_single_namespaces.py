"""Users who may read only some namespaces see those, and which ones."""

from __future__ import annotations

import pytest

from kubekit.objects.kinds import NAMESPACES
from muster.contract.job_kinds import TFJOBS
from muster.web.access.gate import Policy
from tests.muster.web.objects import job
from tests.muster.web.site import Site, rows
from tests.waiting import eventually

PROXY = Policy(proxy_hosts=("muster.example",))


@pytest.mark.parametrize("policy", [PROXY])
async def test_a_user_of_single_namespaces_sees_those(site: Site, policy: Policy) -> None:
    """Of its own namespace, and of one that it finds in the list of namespaces."""
    other = site.api.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "other-"}})
    hidden = site.api.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "hidden-"}})
    names = [site.namespace, *(each["metadata"]["name"] for each in (other, hidden))]
    for number, namespace in enumerate(names):
        site.api.create(TFJOBS, job(f"job-{number}", namespace=namespace))
    site_user = site.service_account("member")
    site.grant("member", "tfjobs", "pods", namespace=names[0])
    headers = {"Host": "muster.example", "Authorization": site_user}

    page = await site.get("/jobs", headers=headers)
    assert [row[0] for row in rows(page)] == ["job-0"]
    sentence = f"Shown: namespace {names[0]} only, because you may not list objects in all"
    assert sentence in page
    assert "Not shown, because you may not list them: jaxjobs, mpijobs, pytorchjobs" in page

    page = await site.get("/", headers=headers)
    assert "The map is empty because you may not list nodes" in page
    assert sentence in page

    headers["Authorization"] = site.service_account("lister", "namespaces")
    site.grant("lister", "*", namespace=names[0])
    site.grant("lister", "*", namespace=names[1])
    page = await site.get("/jobs", headers=headers)
    assert {row[0] for row in rows(page)} == {"job-0", "job-1"}
    assert "Not shown" not in page

    site.grant("member", "tfjobs", "pods", "jaxjobs", "mpijobs", "pytorchjobs")
    headers["Authorization"] = site_user

    async def shows_all() -> bool:
        page = await site.get("/jobs?text=job-2", headers=headers)
        return "job-2" in page and "Shown:" not in page

    await eventually(shows_all, timeout=60, what="the right that was granted later is used")
