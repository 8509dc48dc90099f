"""The line: rows in order with reasons, who has what is short, holds, and who was placed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from kubekit.objects.core import Pod
from kubekit.objects.meta import Condition, Raw
from muster.contract.waiting_line_format import IN_LINE, HeldRoom, WaitingGang
from muster.scheduler.decisions import reasons
from muster.web import render
from muster.web.views.line import WAITS_FOR, LineView, PublishedLine, line_view, published
from muster.web.views.owner_colours import Looks, Owner
from tests.muster.web.objects import HOSTILE, pod

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LLAMA = WaitingGang(
    gang="default/llama",
    place=1,
    code=reasons.NOT_ENOUGH_ROOM,
    reason="0 of 2 workers fit; short 3 nvidia.com/gpu",
    since="2026-01-01T23:56:00Z",
    dialect="pdb",
    min_member=2,
    pending=2,
    short={"nvidia.com/gpu": "3"},
)
PODS = [
    pod("llama-0", job="llama", gpus=2, message="old words"),
    pod("llama-1", job="llama", gpus=2),
    pod("resnet-0", job="resnet", node="n1", gpus=4),
    pod("bert-0", job="bert", node="n1", gpus=1),
]


def show(*gangs: WaitingGang, pods: object = PODS, holds: tuple[HeldRoom, ...] = ()) -> LineView:
    return line_view(pods, PublishedLine(gangs, holds), Looks(), NOW)  # type: ignore[arg-type]


def html(view: LineView) -> str:
    return render.text("_line.html", view=view, version="x.1")


def test_a_gang_says_its_place_why_what_is_short_and_who_has_it() -> None:
    (row,) = show(LLAMA).rows

    assert (row.place, row.owner) == (1, Owner("default", "TFJob", "llama"))
    assert row.reason == "0 of 2 workers fit; short 3 nvidia.com/gpu"
    assert (row.short, row.waits_for) == ("3 nvidia.com/gpu", "room on nodes")
    assert [(holder.owner.name, holder.amount) for holder in row.holders] == [
        ("resnet", "4"),
        ("bert", "1"),
    ]
    assert row.members == "2 pods without a node; starts with 2"
    assert (row.waited, row.since) == (240.0, NOW - timedelta(minutes=4))
    assert '<a href="/jobs/default/TFJob/llama">llama</a>' in html(show(LLAMA))


def in_line(name: str, place: str) -> Pod:
    """A pod that waits, with the place that the scheduler wrote on it."""
    waits = pod(f"{name}-0", job=name, gpus=2, message="short 3 GPUs")
    written = Condition(IN_LINE, "True", message=place, last_transition_time=NOW)
    (scheduled,) = waits.status.conditions
    since = replace(scheduled, last_transition_time=NOW)
    return replace(waits, status=replace(waits.status, conditions=(since, written)))


def test_to_a_reader_who_may_not_read_the_line_the_pods_tell_their_places() -> None:
    pods = [in_line("late", "7/9"), in_line("early", "2/9"), pod("new-0", job="new")]

    view = line_view(pods, published([]), Looks(), NOW)

    assert [(row.owner.name, row.place) for row in view.rows] == [
        ("early", 2),
        ("late", 7),
        ("new", 0),
    ]
    assert view.rows[0].reason == "short 3 GPUs"
    assert "3 jobs waiting, 2 of them in the scheduler&#39;s line" in html(view).replace(
        "'", "&#39;"
    )


def test_a_cluster_without_a_line_is_not_said_to_have_one_of_nobody() -> None:
    view = line_view([pod("a-0", job="a"), pod("b-0", job="b")], published([]), Looks(), NOW)

    assert "2 jobs waiting.</p>" in html(view)


def refused(name: str, minute: int, priority: int = 0, quota: str = "team") -> Raw:
    wait = {"name": quota, "needs": {"requests.nvidia.com/gpu": "4"}, "priority": priority}
    wait["since"] = f"2026-01-01T23:{minute}:00Z"
    created = {"creationTimestamp": f"2026-01-01T23:{minute}:00Z"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, **created},
        "status": {"waiting": {"reason": "QuotaExceeded", "quota": wait}},
    }


def test_jobs_that_wait_for_a_quota_are_shown_in_their_order() -> None:
    jobs = [refused("young", 50), refused("old", 40), refused("high", 55, 9)]
    broken = refused("broken", 30)
    broken["status"]["waiting"]["quota"] = {"name": 1, "needs": []}
    others = [refused("other", 30, quota="z"), broken]

    view = line_view(
        (), PublishedLine(), Looks(), NOW, [("TFJob", job) for job in (*jobs, *others)]
    )

    assert [(row.quota, row.place, row.owner.name) for row in view.quotas] == [
        ("team", 1, "high"),
        ("team", 2, "old"),
        ("team", 3, "young"),
        ("z", 1, "other"),
    ]
    assert (view.quotas[1].needs, view.quotas[1].waited) == ("4 requests.nvidia.com/gpu", 1200.0)
    text = html(view)
    assert '<a href="/jobs/default/TFJob/old">old</a>' in text
    assert "Nobody waits" not in text


def test_of_several_short_resources_the_one_that_somebody_has_is_shown() -> None:
    gang = msgspec.structs.replace(LLAMA, short={"cpu": "1", "nvidia.com/gpu": "3"})
    (row,) = show(gang).rows

    assert (row.resource, row.holders[0].owner.name) == ("nvidia.com/gpu", "resnet")
    (row,) = show(msgspec.structs.replace(LLAMA, short={"cpu": "1"})).rows
    assert (row.resource, row.holders) == ("", ())


def test_every_code_of_the_scheduler_has_words() -> None:
    codes = {
        value
        for name, value in vars(reasons).items()
        if name.isupper()
        and isinstance(value, str)
        and value.isalpha()
        and name not in ("PODS", "FULL")
    }
    assert codes == WAITS_FOR.keys()


def test_pods_of_another_scheduler_follow_with_their_reasons() -> None:
    other = pod("other-0", job="other", message="0/3 nodes are available")
    new = pod("new-0", job="new", created=NOW - timedelta(seconds=1))
    silent = pod("silent-0", job="silent")
    view = show(LLAMA, pods=[*PODS, other, new, silent])

    rows = [(row.place, row.owner.name) for row in view.rows]
    assert rows == [(1, "llama"), (0, "other"), (0, "new"), (0, "silent")]
    assert view.rows[1].reason == "0/3 nodes are available"
    assert view.rows[2].reason == "the scheduler has not reported on its new pods yet"
    assert "no scheduler has reported a reason" in view.rows[3].reason
    assert (view.total, view.in_line) == (4, 1)


def test_a_gang_of_pods_without_a_controller_is_one_row_with_its_own_name() -> None:
    gang = {
        "gang.scheduling.koordinator.sh/name": "manual",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    pods = [pod(f"alone-{number}", annotations=gang) for number in range(2)]
    dialect = {"gang": "default/manual", "dialect": "koordinator"}
    waiting = msgspec.structs.replace(LLAMA, **dialect, short={})
    held = HeldRoom("default/manual", "n1", "2026-01-02T00:05:00Z", "koordinator", 1)
    view = show(waiting, pods=pods, holds=(held,))

    assert [(row.owner.name, row.gang) for row in view.rows] == [("manual", "")]
    assert view.holds[0].owner.name == "manual"
    placed = [pod(f"alone-{n}", annotations=gang, node="n1", bound=NOW) for n in range(2)]
    assert [(row.owner.name, row.pods) for row in show(pods=placed).placed] == [("manual", 2)]


def test_holds_are_summed_by_gang() -> None:
    rooms = tuple(
        HeldRoom("default/bert", f"n{n}", "2026-01-02T00:05:00Z", "pdb", 1, {"cpu": "500m"})
        for n in range(4)
    )
    (row,) = show(holds=rooms).holds

    assert (row.owner.name, row.pods, row.amounts, row.nodes) == ("bert", 4, "2 cpu", "4 nodes")
    assert row.until == datetime(2026, 1, 2, 0, 5, tzinfo=UTC)


def test_placements_of_the_last_minutes_come_newest_first() -> None:
    def placed(job: str, number: int, minutes: float) -> object:
        bound = NOW - timedelta(minutes=minutes)
        created = bound - timedelta(seconds=30 * number)
        return pod(f"{job}-{number}", job=job, node=f"n{number}", bound=bound, created=created)

    pods = [placed("old", 1, 11), placed("a", 1, 5), placed("b", 1, 1), placed("b", 2, 1)]
    rows = [(row.owner.name, row.pods, row.nodes, row.waited) for row in show(pods=pods).placed]

    assert rows == [("b", 2, "n1, n2", 60.0), ("a", 1, "n1", 30.0)]


def test_an_empty_cluster_and_no_scheduler() -> None:
    view = line_view([], published([]), Looks(), NOW)

    assert (view.rows, view.holds, view.placed) == ((), (), ())
    assert "every pod has a node" in html(view)


def test_hostile_text_stays_text() -> None:
    gang = WaitingGang(HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE, short={HOSTILE: HOSTILE})
    hold = HeldRoom(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1, {HOSTILE: "1"})
    pods = [
        pod(HOSTILE, job=HOSTILE, kind=HOSTILE, message=HOSTILE),
        pod(HOSTILE, job="j", node=HOSTILE, bound=NOW),
    ]
    text = html(show(gang, pods=pods, holds=(hold,)))

    assert "window.hacked" in text
    assert "<script" not in text
    assert "<img" not in text


def test_a_long_line_is_bounded_and_says_so() -> None:
    gangs = [
        WaitingGang(f"default/g{n}", n, "NotEnoughRoom", "no room", "nonsense")
        for n in range(1, 301)
    ]
    view = show(*gangs)

    assert (len(view.rows), view.total) == (200, 301)
    assert "101 more wait behind them." in html(view)
