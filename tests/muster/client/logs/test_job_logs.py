"""Chunks of logs become whole lines, each with its pod."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.core import Pod, PodLog
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key, ObjectMeta
from kubekit.request_errors import NotFound, Unreachable
from muster.client.jobs import lookup
from muster.client.logs import job_logs
from muster.client.logs.job_logs import JobDeleted, follow_replica, whole_lines
from muster.client.logs.log_choice import FoundLogs
from muster.client.logs.pod_log import LogOptions
from muster.jobs.view.summary import JobSummary
from tests.builders import read_pod

ONE, TWO = Key("n", "one"), Key("n", "two")


def test_lines_of_several_logs_stay_whole() -> None:
    chunks = [(ONE, b"a\nb"), (TWO, b"x"), (ONE, b"c\n"), (TWO, b"y\n\nz"), (TWO, b"")]

    assert list(whole_lines(chunks)) == [
        (ONE, [b"a"]),
        (ONE, [b"bc"]),
        (TWO, [b"xy", b""]),
        (TWO, [b"z"]),
    ]


def test_a_log_that_stops_within_a_line_keeps_it() -> None:
    assert list(whole_lines([(ONE, b"a\nb")])) == [(ONE, [b"a"]), (ONE, [b"b"])]


POD = Key("default", "j-worker-0")


def pod(uid: str, phase: str = "Running") -> Pod:
    labels = {"training.kubeflow.org/replica-type": "worker"}
    return read_pod(POD.name, meta={"uid": uid, "labels": labels}, status={"phase": phase})


class Job:
    """A job whose pods are `history`, one state after the other at each look."""

    uid = "job"

    def __init__(self, history: list[list[Pod] | Exception], state: str = "RUNNING") -> None:
        self.history, self.state = iter(history), state
        self.now: list[Pod] = []

    def look(self, *_: object) -> Job:
        try:
            now = next(self.history)
        except StopIteration:
            self.state = "SUCCEEDED"
            return self
        if isinstance(now, Exception):
            raise now
        self.now = now
        return self

    def pods(self, _: object) -> list[Pod]:
        return self.now

    def summary(self, _: object) -> Any:
        over = self.state == "SUCCEEDED"
        return type("S", (), {"over": over, "reason": "it is suspended"})

    @property
    def raw(self) -> dict[str, Any]:
        replicas = {"Worker": {"replicas": 1, "template": {"spec": {"containers": []}}}}
        return {
            "apiVersion": "kubeflow.org/v1", "kind": "JAXJob",
            "metadata": {"name": "j", "namespace": "default", "uid": "job"},
            "spec": {"jaxReplicaSpecs": replicas},
        }  # fmt: skip


def follow(
    monkeypatch: pytest.MonkeyPatch,
    job: Job,
    logs: list[tuple[bytes, str] | Exception],
    kept: Mapping[str, bytes] = MappingProxyType({}),
) -> tuple[bytes, list[str]]:
    """The followed log and the notes, where each pod has one log and its UID.

    `kept` are the logs that the cluster keeps, by the UID of their pods.
    """
    scripts, notes = iter(logs), list[str]()

    def follow_log(*_: object, former: str) -> Generator[bytes, None, str]:
        script = next(scripts)
        if former:
            notes.append(f"after {former}")
        if isinstance(script, Exception):
            raise script
        yield script[0]
        return script[1]

    class Client:
        def find(self, kind: object, _: Key) -> Pod:
            assert kind is PODS
            return pod("1")

        def list(self, *_: object, **__: object) -> Any:
            if not kept:
                raise NotFound("only the local cluster serves PodLogs")
            rows = [
                PodLog(ObjectMeta(name=uid, namespace="default"), POD.name, uid, "c")
                for uid in kept
            ]
            return type("L", (), {"items": rows})

        def log_of(self, kind: object, key: Key, **_: object) -> Iterator[bytes]:
            return iter([kept[key.name]])

    monkeypatch.setattr(job_logs, "POLL_SECONDS", 0)
    monkeypatch.setattr(job_logs, "follow_log", follow_log)
    monkeypatch.setattr(lookup, "get_job", job.look)
    summary = cast(
        JobSummary, type("J", (), {"key": "j", "trainer": "", "uid": "job", "name": "j"})
    )
    client, options = cast(BlockingClient, Client()), LogOptions(follow=True, tail=1)
    chunks = follow_replica(client, FoundLogs([], summary), POD, options, notes.append)
    return b"".join(chunk for _, chunk in chunks), notes


def test_a_suspended_replica_continues_with_its_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job([[pod("1", "Failed")], [], [], [pod("2")]])

    text, notes = follow(monkeypatch, job, [(b"a", "1"), (b"b", "2")])

    assert text == b"ab"
    assert notes == ["waiting for the next pod of j-worker-0: it is suspended", "after j-worker-0"]


def test_a_replica_that_succeeded_has_no_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job([[pod("1", "Succeeded")]])

    assert follow(monkeypatch, job, [(b"a", "1")]) == (b"a", [])


def test_an_attempt_that_came_and_went_with_the_end_of_the_job_is_read_from_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"0": b"z", "1": b"a", "2": b"b"}

    text, notes = follow(monkeypatch, Job([]), [(b"a", "1")], kept)

    assert text == b"ab"
    assert notes == ["-- j-worker-0: attempt 3 --"]


def test_a_pod_that_is_deleted_before_it_starts_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job([[], [pod("2")]])

    text, _ = follow(monkeypatch, job, [NotFound("deleted"), (b"b", "2")])

    assert text == b"b"


def test_a_cluster_that_is_unreachable_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Unreachable("refused")
    job = Job([away, away, [pod("2")]])

    text, notes = follow(monkeypatch, job, [(b"a", "1"), (b"b", "2")])

    assert text == b"ab"
    assert notes == ["the cluster is unreachable: refused; waiting for it", "after j-worker-0"]


def test_a_job_that_is_deleted_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobDeleted, match="the job j was deleted"):
        follow(monkeypatch, Job([NotFound("no such job")]), [(b"a", "1")])


def test_sentences_about_one_of_many_replicas_keep_their_place_between_its_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def follow_replica(*words: Any) -> Generator[tuple[Key, bytes], None, None]:
        _, _, first, _, notify = words
        yield first, b"one\n"
        notify("-- attempt 2 --")
        yield first, b"two\n"

    class Client:
        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None: ...

    seen: list[object] = []
    monkeypatch.setattr(job_logs, "follow_replica", follow_replica)
    monkeypatch.setattr(job_logs, "_replicas", lambda *_: iter([POD]))
    chunks = job_logs.follow_all(
        cast(Any, Client), cast(FoundLogs, None), LogOptions(follow=True), seen.append
    )
    for _, chunk in chunks:
        seen.append(chunk)

    assert seen == [b"one\n", "-- attempt 2 --", b"two\n", b""]
