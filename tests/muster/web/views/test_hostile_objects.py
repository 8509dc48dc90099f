"""What a user writes into an object takes no page away from others.

The views and templates of all pages are made of objects with any value in any field; the row of an
object that brings out a bug is replaced.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kubekit.objects.core import ConfigMap, Node, Pod
from kubekit.objects.meta import Raw, key_of
from kubekit.telemetry import unexpected_errors
from muster.client.models import catalog
from muster.jobs.view.summary import summarize
from muster.web import render
from muster.web.cluster import live_cluster, watched_objects
from muster.web.cluster.live_cluster import JobSummaries, JobWithPods
from muster.web.pages.job import _Found, _view
from muster.web.views import (
    NOT_SHOWN,
    cluster_map as cluster_map_module,
    line as line_module,
    node_room as node_room_module,
    owner_colours,
)
from muster.web.views.cluster_map import MapQuery, cluster_map
from muster.web.views.history import HistoryQuery, history_view
from muster.web.views.job_history import JobEvents, events_by_job, job_history
from muster.web.views.job_rows import JobQuery, jobs_view
from muster.web.views.line import line_view, published
from muster.web.views.models import exporting_jobs, model_page, models_view
from muster.web.views.owner_colours import Looks
from tests import hostile_json
from tests.muster.operator.test_hostile_objects import TIME, full, pod
from tests.muster.web import objects
from tests.unexpected_errors import counted

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
FRAME: dict[str, Any] = dict.fromkeys(
    ("csrf", "hidden", "scope", "user", "path", "problem", "version"), ""
) | {"signed_in": False, "navigation": [], "read_only": False}
NODE = {
    "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a", "x/rack": "b"}},
    "spec": {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "nvidia.com/gpu": "4"},
        "conditions": [{"type": "Ready", "status": "False", "message": "m", "reason": "r"}],
    },
}
EVENT = {
    "metadata": {"name": "e", "namespace": "ns", "uid": "e", "creationTimestamp": TIME},
    "involvedObject": {"kind": "Pod", "name": "j-worker-0", "namespace": "ns", "uid": "pod"},
    "reason": "Started",
    "message": "m",
    "type": "Normal",
    "count": 3,
    "firstTimestamp": TIME,
    "lastTimestamp": TIME,
    "eventTime": None,
    "source": {"component": "kubelet", "host": "n"},
    "series": {"count": 2, "lastObservedTime": TIME},
}
GANG = {
    "gang": "ns/j", "place": 1, "code": "NotEnoughRoom", "reason": "r", "since": TIME, "least": 2,
    "dialect": "volcano", "priority": 1, "bound": 1, "pending": 1, "held": 1, "short": {"cpu": "1"},
}  # fmt: skip
HOLD = {
    "gang": "ns/j", "node": "n", "until": TIME, "dialect": "volcano", "pods": 1,
    "requests": {"cpu": "1", "nvidia.com/gpu": "1"},
}  # fmt: skip
TENSOR = {"name": "weights", "dtype": "float32", "shape": [2, -1]}
MODEL = {
    "name": "m",
    "job": {"kind": "TFJob", "name": "j", "uid": "u"},
    "directory": "/m",
    "versions": [
        {
            "version": "1",
            "format": "npz",
            "created": TIME,
            "size": 5,
            "files": [{"path": "a", "size": 1}],
            "fileCount": 1,
            "tensors": [TENSOR],
            "signatures": [{"name": "serving_default", "inputs": [TENSOR], "outputs": []}],
        }
    ],
    "omitted": 1,
}
SURVIVED = unexpected_errors.survived
T = TypeVar("T")


def decoded(raw: Raw, shape: type[T]) -> tuple[T, ...]:
    """The object as its informer holds it; none if it cannot be read."""
    try:
        return (msgspec.json.decode(msgspec.json.encode(raw), type=shape),)
    except (msgspec.DecodeError, OverflowError):
        return ()


def config_map(name: str, **data: object) -> ConfigMap:
    meta = {"name": name, "namespace": "ns", "labels": {"muster.dev/model": "m"}}
    texts = {key.replace("_", "."): msgspec.json.encode(row).decode() for key, row in data.items()}
    return msgspec.convert({"metadata": meta, "data": texts}, ConfigMap)


def history(jobs: list[JobWithPods], events: list[Raw]) -> None:
    by_job = events_by_job(events)
    rows = [
        job_history(summary, job.raw, job.pods, by_job.get(key_of(job.raw), JobEvents()), NOW)
        for summary, job in zip(JobSummaries().of(jobs, NOW), jobs, strict=True)
    ]
    for query in (HistoryQuery(), HistoryQuery(1, "node")):
        view = history_view(rows, query, 4, Looks(), NOW)
        render.text("history.html", view=view, **FRAME)


def check(raw: Raw, pods: tuple[Pod, ...], nodes: tuple[Node, ...], event: Raw, *rows: Raw) -> None:
    """All pages that show these objects can be made."""
    gang, hold, model = rows
    jobs, looks = [JobWithPods(raw, pods)], Looks().with_pods(pods)
    line = config_map("muster-line", line=[gang], holds=[hold])
    for sort in ("age", "-duration", "gpus"):
        view: object = jobs_view(JobSummaries().of(jobs, NOW), JobQuery(sort=sort), NOW)
        render.text("jobs.html", view=view, **FRAME)
    history(jobs, [event])
    published_line = published([line])
    view = cluster_map(nodes, pods, published_line, MapQuery(), looks, NOW)
    render.text("cluster.html", view=view, **FRAME)
    render.text("line.html", view=line_view(pods, published_line, looks, NOW), **FRAME)
    found = _Found(jobs[0], (), None, [event], (line,))
    render.text("job.html", view=_view(found, JobSummaries().of_one(jobs[0], NOW), NOW), **FRAME)
    models = catalog.published_models([config_map("model-x", model_json=model)])
    view = models_view(models, NOW, exporting_jobs([raw], models))
    render.text("models.html", view=view, **FRAME)
    for row in models:
        render.text("model.html", view=model_page(row, NOW), **FRAME)
    watched_objects.JOBS["TFJob"].topics(raw)
    watched_objects.EVENTS.topics(event)
    for one in pods:
        watched_objects.PODS.topics(one)


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are not replaced: a bug raises, whichever view it is in."""

    def raise_it(where: str, about: object, error: Exception) -> None:
        raise error

    monkeypatch.setattr(unexpected_errors, "survived", raise_it)


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "MPIJob"])
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(data=st.data())
def test_any_value_in_any_field_leaves_every_page_whole(kind: str, data: st.DataObject) -> None:
    which = data.draw(st.sampled_from(["job", "pod", "node", "event", "gang", "hold", "model"]))

    def drawn(name: str, raw: Raw) -> Raw:
        return data.draw(hostile_json.changed(raw)) if which == name else raw

    check(
        drawn("job", full(kind)),
        decoded(drawn("pod", pod(kind)), Pod),
        decoded(drawn("node", NODE), Node),
        drawn("event", EVENT),
        drawn("gang", GANG),
        drawn("hold", HOLD),
        drawn("model", MODEL),
    )


@pytest.fixture(params=["America/New_York", "Asia/Tokyo", "UTC"])
def in_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("moment", hostile_json.TIMES)
def test_times_at_the_limits_in_any_time_zone(moment: str, in_zone: None) -> None:
    raw, one = full("TFJob"), pod("TFJob")
    raw["status"] = {**raw["status"], "startTime": moment, "completionTime": moment}
    one["metadata"] |= {"creationTimestamp": moment, "deletionTimestamp": moment}
    terminated = {"exitCode": 1, "startedAt": moment, "finishedAt": moment}
    one["status"]["containerStatuses"][0]["state"] = {"terminated": terminated}
    event = {**EVENT, "firstTimestamp": moment, "lastTimestamp": moment}

    check(
        raw,
        decoded(one, Pod),
        decoded(NODE, Node),
        event,
        {**GANG, "since": moment},
        {**HOLD, "until": moment},
        MODEL,
    )


def test_a_bug_in_one_row_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unexpected_errors, "survived", SURVIVED)
    monkeypatch.setattr(unexpected_errors, "_lines", {})
    before = counted().get("dashboard row", 0)

    def fails_for_bad(raw: Raw, *rest: Any) -> Any:
        if raw["metadata"]["name"] == "bad" and "spec" in raw:
            raise ZeroDivisionError
        return summarize(raw, *rest)

    monkeypatch.setattr(live_cluster, "summarize", fails_for_bad)
    jobs = [JobWithPods(objects.job(name), ()) for name in ("a", "bad", "c")]
    for _ in range(3):
        summaries = JobSummaries().of(jobs, NOW)
    text = render.text("jobs.html", view=jobs_view(summaries, JobQuery(), NOW), **FRAME)

    assert [row.name for row in summaries] == ["a", "bad", "c"]
    assert [row.name for row in summaries if row.reason == NOT_SHOWN] == ["bad"]
    assert text.count(NOT_SHOWN.partition(";")[0]) >= 1
    assert caplog.text.count("dashboard row bad: bug: ") == 1
    assert counted()["dashboard row"] == before + 3


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (cluster_map_module, "owner_of"),
        (cluster_map_module, "requests_of"),
        (line_module, "owner_of"),
        (line_module, "requests_of"),
        (line_module, "_placed_row"),
        (node_room_module, "_parsed"),
        (owner_colours, "owner_of"),
        (owner_colours, "gang_named_by"),
    ],
)
def test_a_bug_that_one_pod_or_hold_brings_out_leaves_the_map_and_the_line_of_others(
    module: Any, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unexpected_errors, "survived", SURVIVED)
    before, original = counted().get("dashboard row", 0), getattr(module, function)

    def fails_for_bad(*arguments: Any) -> Any:
        if "bad" in repr(arguments):
            raise ZeroDivisionError("a bug")
        return original(*arguments)

    monkeypatch.setattr(module, function, fails_for_bad)
    nodes = decoded(NODE, Node)
    pods = [one for name in ("bad", "good") for one in (running(name), waiting(name))]
    holds = [{**HOLD, "gang": f"ns/{name}"} for name in ("bad", "good")]
    short = {**GANG, "gang": "ns/good", "short": {"cpu": "1"}}
    line = published([config_map("muster-line", line=[short], holds=holds)])
    looks = Looks().with_pods(pods)
    view = cluster_map(nodes, pods, line, MapQuery(), looks, NOW)
    rows = line_view(pods, line, looks, NOW)

    assert "good" in {row.owner.name for row in view.legend}
    assert "good" in {row.owner.name for row in rows.rows}
    assert "good" in {row.owner.name for row in rows.placed}
    assert "good" in {row.owner.name for row in rows.holds}
    assert counted()["dashboard row"] > before


def waiting(job: str, **fields: Any) -> Pod:
    (one,) = decoded(
        {
            "metadata": {
                "name": f"{job}-{len(fields)}",
                "namespace": "ns",
                "labels": {"job": job},
                "creationTimestamp": TIME,
                "ownerReferences": [
                    {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job, "uid": job}
                    | {"controller": True}
                ],
            },
            "spec": {"containers": [{"name": job, "resources": {"requests": {"cpu": "1"}}}]},
            **fields,
        },
        Pod,
    )
    return one


def running(job: str) -> Pod:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW.isoformat()}
    one = waiting(job, status={"phase": "Running", "conditions": [scheduled]})
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name="n"))
