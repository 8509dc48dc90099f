"""`-i` names an instance by its pod, by its role and index, or by its index."""

from __future__ import annotations

import pytest

from muster.client.jobs.instances import named_instance
from muster.errors import NotFound
from muster.jobs.view.summary import summarize
from tests.jobs.test_summary import job, pod


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("j-worker-1", "j-worker-1"),
        ("worker-1", "j-worker-1"),
        ("1", "j-worker-1"),
        ("0", "j-worker-0"),
        ("ps-0", "j-ps-0"),
        ("2", "j-ps-2"),
    ],
)
def test_an_index_means_the_worker_or_the_only_instance_that_has_it(
    written: str, meant: str
) -> None:
    pods = [pod("ps", 0), pod("ps", 2), pod("worker", 0), pod("worker", 1)]
    pods += [pod("ps", 3), pod("evaluator", 3)]
    summary = summarize(job("Running"), pods)

    assert named_instance(summary, written).name == meant
    for other in ("3", "9", "worker-9", "chief-0"):
        with pytest.raises(NotFound, match=f"no replica {other}"):
            named_instance(summary, other)
