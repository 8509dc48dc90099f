"""Choosing an instance: `-i` by its pod, its role and index or its index; else the job's chief."""

from __future__ import annotations

from typing import cast

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.errors import MusterError
from kubekit.request_errors import NotFound
from muster.client.jobs.instances import instance_to_read, named_instance
from muster.jobs.view.summary import summarize
from tests.muster.jobs.test_summary import job, pod


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


def test_the_only_replica_is_named_to_users_who_ask_for_another() -> None:
    summary = summarize(job("Running", chief=True), [pod("chief", 0)])

    with pytest.raises(NotFound, match="no replica worker-0") as caught:
        named_instance(summary, "worker-0")

    assert caught.value.hint == "Its only replica is j-chief-0."


@pytest.mark.parametrize("workers", [1, 2])
def test_pods_that_are_being_deleted_are_not_offered_in_place_of_the_chief(workers: int) -> None:
    """A finished job may have lost its launcher or chief while other pods still end."""
    pods = [pod("worker", index) for index in range(workers)]
    summary = summarize(job("Succeeded", chief=True), pods)

    with pytest.raises(MusterError, match="the job j has succeeded; its chief has no pod") as none:
        instance_to_read(cast(BlockingClient, None), summary, follow=False)

    assert "--clean-task-policy=None" in none.value.hint
