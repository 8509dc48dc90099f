"""`muster uninstall` on a real node. Last of this package by its name: the others need Muster."""

from __future__ import annotations

import pytest

from tests.realnode.cluster import MUSTER, Cluster
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_uninstall_removes_the_components_and_keeps_jobs(cluster: Cluster) -> None:
    cluster.submit("tf", "kept", "--workers=1", command="sleep infinity")
    cluster.until_job("kept", "RUNNING")

    cluster.muster("uninstall", "--yes")

    until(
        lambda: not cluster.objects("pods", MUSTER), timeout=180, every=1, what="no pods of Muster"
    )
    assert cluster.names("tfjobs", "") == ["kept"]
    assert cluster.names("pods", "kept") == ["kept-chief-0"]
