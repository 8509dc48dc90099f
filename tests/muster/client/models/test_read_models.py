"""A reader tells what keeps its pod from starting, and when the list of models changes."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from kubekit.client.client import Client
from kubekit.errors import MusterError
from kubekit.objects.meta import Key, Raw
from muster.client.models import read_models, reader_job
from tests.muster.client.models.test_reader_job import cluster_of
from tests.muster.client.models.test_runner_pod import CLAIM, job

READER = {
    "kind": "Job",
    "metadata": {"namespace": "team", "name": "model-reader-tfjob-j", "uid": "u"},
}


def failed_create(message: str) -> Raw:
    raw = {"kind": "Event", "metadata": {"namespace": "team", "name": "e"}, "message": message}
    return {**raw, "reason": "FailedCreate", "involvedObject": {"uid": "u"}}


@pytest.mark.parametrize(
    "message",
    [
        'Error creating: pods "r-" is forbidden: exceeded quota: q',
        'Error creating: pods "r-" is forbidden: violates PodSecurity "restricted:latest"',
    ],
)
async def test_a_reader_without_a_pod_says_at_once_what_forbids_it(message: str) -> None:
    cluster = cluster_of(failed_create(message))

    with pytest.raises(MusterError, match=re.escape(message)):
        await read_models._ended(cluster, READER)


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (cluster_of(failed_create("webhook timed out")), "webhook timed out"),
        (cluster_of(failed_create("hidden"), secret=("Event",)), "it has no pod yet"),
        (cluster_of(), "it has no pod yet"),
    ],
)
async def test_a_reader_without_a_pod_says_why_when_its_time_is_over(
    cluster: Client, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_job, "DEADLINE_SECONDS", 0.1)

    with pytest.raises(MusterError, match=f"is not finished after 0.1 seconds: {why}"):
        await read_models._ended(cluster, READER)


ONE_VERSION = f'{read_models.MARK}{{"versions": [{{"version": "1"}}], "truncated": true}}'


class Lists:
    """A client that remembers how the list of models was changed."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    async def patch(self, kind: Any, key: Key, body: Raw) -> None:
        model = msgspec.json.decode(body["data"]["model.json"])
        assert (model["directory"], model["truncated"]) == ("/models/u/export", True)
        self.changes.append("patch")

    async def delete(self, kind: Any, key: Key) -> None:
        self.changes.append("delete")


@pytest.mark.parametrize(
    ("log", "changes", "problem"),
    [
        (ONE_VERSION, ["patch"], None),
        (f"{read_models.MARK}{{}}", ["delete"], None),
        ("error: there is no directory m", [], "were not read: there is no directory m"),
        (
            f"{ONE_VERSION}\nerror: not complete: m/2",
            ["patch"],
            "not all models are listed: not complete: m/2",
        ),
    ],
)
async def test_the_list_is_deleted_only_after_a_complete_look_that_found_nothing(
    log: str, changes: list[str], problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: Any) -> str:
        return log

    monkeypatch.setattr(read_models, "_run", run)
    given, client = job(CLAIM), Lists()
    given["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    error = pytest.raises(MusterError, match=problem) if problem else nullcontext()

    with error:
        await read_models.read_models(client, given, "muster:1")  # type: ignore[arg-type]

    assert client.changes == changes
