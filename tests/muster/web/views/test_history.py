"""The history: periods of jobs from incomplete facts, lanes for few and many, sums."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from kubekit.objects.core import (
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from kubekit.objects.meta import Key, ObjectMeta, Raw, timestamp
from muster.jobs.view.summary import summarize
from muster.web import render
from muster.web.views.history import (
    BINS,
    MAX_LANES,
    MAX_ROWS,
    HistoryQuery,
    HistoryView,
    history_view,
)
from muster.web.views.job_history import JobEvents, JobHistory, Period, events_by_job, job_history
from muster.web.views.owner_colours import Looks
from tests.muster.web.objects import HOSTILE, job

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LABELS = {"training.kubeflow.org/job-name": "x", "training.kubeflow.org/replica-type": "worker"}


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def event(kind: str, name: str, reason: str, minutes: float, host: str = "") -> Raw:
    return {
        "involvedObject": {"kind": kind, "namespace": "default", "name": name},
        "reason": reason,
        "firstTimestamp": timestamp(ago(minutes)),
        "source": {"host": host},
    }


def started(minutes: float, node: str = "n1") -> Raw:
    return event("Pod", "x-worker-0", "Started", minutes, node)


def raw(state: str, *, created: float = 60, **status: object) -> Raw:
    made = job("x", state=state, gpus=2, created=ago(created))
    made["status"]["conditions"][0]["lastTransitionTime"] = timestamp(ago(10))
    made["status"] |= status
    return made


def history(made: Raw, *events: Raw, pods: tuple[Pod, ...] = ()) -> JobHistory:
    own = events_by_job(events).get(Key("default", "x"), JobEvents())
    return job_history(summarize(made, pods), made, pods, own, NOW)


def minutes(periods: tuple[Period, ...]) -> list[tuple[float, float]]:
    return [
        ((NOW - p.start).total_seconds() / 60, (NOW - p.end).total_seconds() / 60) for p in periods
    ]


def test_a_finished_job_waited_until_its_first_pod_started() -> None:
    done = raw("Succeeded", startTime=timestamp(ago(60)), completionTime=timestamp(ago(10)))
    found = history(done, started(50), started(45, "n2"))

    assert minutes(found.waits) == [(60, 50)]
    assert minutes(found.runs) == [(50, 10)]
    assert found.nodes == ("n1", "n2")


def test_without_pods_and_events_the_start_of_the_operator_counts() -> None:
    done = raw("Failed", startTime=timestamp(ago(55)), completionTime=timestamp(ago(10)))

    assert minutes(history(done).runs) == [(55, 10)]
    assert history(done).nodes == ()


def running_pod(started_at: datetime) -> Pod:
    state = ContainerState(running=ContainerRunning(started_at=started_at))
    return Pod(
        metadata=ObjectMeta(
            name="x-worker-0",
            namespace="default",
            labels=LABELS | {"training.kubeflow.org/operator-name": "tfjob-controller"},
        ),
        spec=PodSpec(node_name="n3"),
        status=PodStatus(phase="Running", container_statuses=(ContainerStatus(state=state),)),
    )


def test_a_pod_that_exists_tells_its_node_and_start() -> None:
    running = raw("Running", startTime=timestamp(ago(60)))
    found = history(running, pods=(running_pod(ago(30)),))

    assert minutes(found.runs) == [(30, 0)]
    assert found.nodes == ("n3",)


def test_a_job_runs_although_the_clock_of_its_node_is_behind() -> None:
    found = history(raw("Running"), pods=(running_pod(ago(60.05)),))

    assert minutes(found.runs) == [(60, 0)]
    assert (found.waits, found.nodes) == ((), ("n3",))


def test_a_suspended_job_ran_before_and_after() -> None:
    running = raw("Running", startTime=timestamp(ago(20)))
    events = (
        started(58),
        event("TFJob", "x", "TFJobSuspended", 40),
        event("TFJob", "x", "TFJobResumed", 20),
        started(15, "n2"),
    )
    found = history(running, *events)

    assert minutes(found.waits) == [(60, 58), (20, 15)]
    assert minutes(found.runs) == [(58, 40), (15, 0)]
    suspended = history(raw("Suspended"), started(58))
    assert minutes(suspended.runs) == [(58, 10)]
    assert minutes(suspended.waits) == [(60, 58)]


def test_a_suspension_of_a_deleted_job_of_the_same_name_does_not_count() -> None:
    events = (
        event("TFJob", "x", "TFJobSuspended", 40),
        event("TFJob", "x", "TFJobResumed", 35),
    )
    waiting = raw("Created", created=5)

    assert minutes(history(waiting, *events).waits) == [(5, 0)]


def test_a_waiting_job_only_waits() -> None:
    found = history(raw("Created"), started(50))

    assert found.runs == ()
    assert minutes(found.waits) == [(60, 0)]


@pytest.mark.parametrize(
    ("created", "start", "end"), [(60, 90, 120), (60, 70, -30), (-10, -5, -1), (-10, 60, 50)]
)
def test_clocks_that_differ_give_no_negative_period(created: int, start: int, end: int) -> None:
    done = raw(
        "Succeeded",
        created=created,
        startTime=timestamp(ago(start)),
        completionTime=timestamp(ago(end)),
    )
    found = history(done, started(start))

    assert all(p.seconds >= 0 for p in (*found.runs, *found.waits))
    view = view_of(found)
    assert all(0 <= bar.start <= bar.end <= 100 for lane in view.lanes for bar in lane.bars)


def test_a_job_without_times_is_left_out() -> None:
    made = job("x")
    del made["metadata"]["creationTimestamp"]
    made["status"] = {"startTime": 5, "conditions": [{"type": "Running", "status": "True"}]}
    broken = {"involvedObject": None, "reason": None, "firstTimestamp": "x", "source": None}

    assert history(made, broken).end is None
    assert view_of(history(made)).total == 0


def finished(name: str, start: float, end: float, **options: object) -> JobHistory:
    fields = {
        "kind": "TFJob", "namespace": "default", "name": name, "owner": "me", "state": "SUCCEEDED",
        "gpus": 2, "restarts": 0, "runs": (Period(ago(start), ago(end), ("n1",)),), "waits": (),
    }  # fmt: skip
    return JobHistory(**{**fields, **options})  # type: ignore[arg-type]


def view_of(*jobs: JobHistory, gpus: int = 4, **variables: str) -> HistoryView:
    return history_view(jobs, HistoryQuery.read(variables), gpus, Looks(), NOW)


def test_few_jobs_have_a_lane_each_and_many_share_lanes() -> None:
    few = view_of(finished("a", 120, 60), finished("b", 30, 0), finished("old", 3000, 2000))
    assert [lane.label for lane in few.lanes] == ["b", "a"]
    assert (few.lanes[1].bars[0].start, few.lanes[1].bars[0].width) == (0.0, 50.0)

    many = view_of(*(finished(f"job-{n}", 1400 - n / 2, 1399 - n / 2) for n in range(2000)))
    assert len(many.lanes) <= MAX_LANES
    assert sum(len(lane.bars) for lane in many.lanes) + many.left_out == many.total == 2000
    assert many.left_out == 0
    assert len(many.rows) == MAX_ROWS
    for lane in many.lanes:
        ends = [bar.end for bar in lane.bars]
        assert all(end < bar.start for end, bar in zip(ends, lane.bars[1:], strict=False))
    crowd = view_of(*(finished(f"job-{n}", 100, 50) for n in range(2000)))
    assert (len(crowd.lanes), crowd.left_out) == (MAX_LANES, 2000 - MAX_LANES)


def test_waiting_jobs_take_no_lane_from_those_that_ran() -> None:
    waits = {"runs": (), "waits": (Period(ago(90), NOW),)}
    jobs = [finished(f"waits-{n}", 0, 0, **waits) for n in range(MAX_LANES)]
    view = view_of(*jobs, finished("ran", 60, 30))

    assert [bar.job.name for lane in view.lanes for bar in lane.bars] == ["ran"]
    assert view.left_out == 0
    few = view_of(*jobs[:2])
    assert [bar.waits for lane in few.lanes for bar in lane.bars] == [True, True]
    assert few.lanes[0].bars[0].title == "default/waits-1 (SUCCEEDED): waited 1h"


def test_the_chart_begins_with_the_first_job_that_is_known() -> None:
    assert view_of(finished("a", 120, 60)).begin == ago(120)
    assert view_of(finished("a", 120, 60), hours="6").begin == ago(120)
    assert view_of(finished("a", 120, 30), hours="1").begin == ago(60)
    young = view_of(finished("a", 0.01, 0))
    assert young.lanes[0].bars[0].width >= 0.2
    assert (young.begin, young.clock) == (ago(1), "%H:%M:%S")
    assert view_of().begin == ago(24 * 60)


@pytest.mark.parametrize(
    ("begin", "clock", "step"),
    [(0.5, "%H:%M:%S", 10), (14, "%H:%M", 3 * 60), (60, "%H:%M", 10 * 60), (1400, "%H:%M", 14400)],
)
def test_ticks_are_at_round_times(begin: float, clock: str, step: int) -> None:
    view = view_of(finished("x", begin, 0), hours="24")
    moments = [moment for _, moment in view.ticks]

    assert view.clock == clock
    assert 4 <= len(moments) <= 8
    assert all(moment.timestamp() % step == 0 for moment in moments)
    assert {(b - a).total_seconds() for a, b in pairwise(moments)} == {step}
    assert all(0 <= position < 95 for position, _ in view.ticks)


def test_a_run_of_no_time_is_drawn() -> None:
    view = view_of(finished("a", 60, 60), finished("b", 0, 0))

    assert [(lane.bars[0].start, lane.bars[0].width) for lane in view.lanes] == [
        (99.8, 0.2),
        (0.0, 0.2),
    ]


def test_lanes_of_nodes_show_who_shared_one() -> None:
    jobs = (
        finished("a", 60, 30),
        finished("b", 50, 20),
        finished("c", 20, 10, runs=(Period(ago(20), ago(10), ("n1", "n2")),)),
        finished("pending", 5, 0, runs=(), waits=(Period(ago(5), NOW),)),
    )
    view = view_of(*jobs, by="node")

    lanes = [(lane.label, [bar.job.name for bar in lane.bars]) for lane in view.lanes]
    assert lanes == [("n1", ["a", "c"]), ("", ["b"]), ("n2", ["c"])]
    assert view.left_out == 0
    assert view.lanes[0].bars[1].title == "default/c (SUCCEEDED): ran 10m on n1, n2"
    nodes = [finished(name, 60, 30, runs=(Period(ago(9), NOW, (name,)),)) for name in ("n10", "n9")]
    assert [lane.label for lane in view_of(*nodes, by="node").lanes] == ["n9", "n10"]


def test_gpu_hours_are_counted_within_the_span_by_namespace_and_owner() -> None:
    view = view_of(
        finished("a", 90, 0),
        finished("b", 30, 0, namespace="team", owner=HOSTILE, gpus=1),
        finished("c", 30, 0, namespace="team", owner="", gpus=0),
        hours="1",
    )
    shares = [(s.namespace, s.owner, s.jobs, s.hours, s.gpu_hours) for s in view.shares]
    assert shares == [
        ("default", "me", 1, 1.0, 2.0),
        ("team", HOSTILE, 1, 0.5, 0.5),
        ("team", "", 1, 0.5, 0.0),
    ]
    assert view.gpu_hours == 2.5
    assert view.utilisation == 62.5
    assert view_of(gpus=0).utilisation is None


def test_curves_have_the_same_sums_as_the_periods() -> None:
    wait = Period(ago(70), ago(60))
    view = view_of(finished("a", 60, 30, waits=(wait,)), finished("b", 100, 40))
    curves = view.curves

    hours = 100 / 60 / BINS
    assert sum(curves.gpus) * hours == pytest.approx(view.gpu_hours, abs=0.01) == 3.0
    assert sum(curves.running) * hours == pytest.approx(1.5, abs=0.01)
    assert sum(curves.waiting) * hours == pytest.approx(1 / 6, abs=0.01)
    assert sorted(seconds for seconds in curves.waits if seconds is not None) == [0.0, 600.0]
    assert view.median_wait == 600.0


def test_without_gpus_the_history_counts_hours() -> None:
    jobs = [
        finished(f"{name}-job", 60, end, owner=name, gpus=0) for name, end in (("a", 30), ("b", 0))
    ]
    view = view_of(*jobs, gpus=0)
    text = render.text("_history_tables.html", view=view, version="x.1")

    assert [(share.owner, share.hours) for share in view.shares] == [("b", 1.0), ("a", 0.5)]
    assert "<h2>Hours by namespace and owner</h2>" in text
    assert "GPU" not in text + render.text("_history.html", view=view, version="x.1")
    assert 'width="50.0%"' in text


def test_a_span_without_jobs_has_a_next_step_and_no_empty_tables() -> None:
    parts = [
        render.text(f"_{part}.html", view=view_of(), version="x.1")
        for part in ("history", "history_tables")
    ]

    assert "No job ran or waited in the last day." in parts[0]
    assert '<a href="/jobs">' in parts[0]
    assert "<table" not in "".join(parts)


def test_nonsense_in_the_address_counts_as_not_given() -> None:
    assert HistoryQuery.read({"hours": "5", "by": "x"}) == HistoryQuery()
    query = HistoryQuery.read({"hours": "6", "by": "node"})
    assert query.variables() == {"hours": 6, "by": "node"}
    assert query.variables(hours=24, by="job") == {"hours": "", "by": ""}
