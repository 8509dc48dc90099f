"""The map of the cluster: cells, marks, groups, filters and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from kubekit.objects.core import Node, Pod, Taint
from kubekit.objects.meta import Condition
from muster.contract.waiting_line_format import HeldRoom, WaitingGang
from muster.web import render
from muster.web.views.cluster_map import LARGE_UP_TO, MAX_NODES, ClusterMap, MapQuery, cluster_map
from muster.web.views.line import PublishedLine
from muster.web.views.owner_colours import Looks, Owner
from tests.muster.web.objects import HOSTILE, node, pod

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"


def show(
    nodes: Sequence[Node] = (),
    pods: Sequence[Pod] = (),
    line: PublishedLine | None = None,
    **query: str,
) -> ClusterMap:
    looks = Looks().with_pods(pods)
    return cluster_map(nodes, pods, line or PublishedLine(), MapQuery.read(query), looks, NOW)


def html(view: ClusterMap) -> str:
    return render.text("_cluster.html", view=view, hidden="", read_only=False, version="x.1")


def names(view: ClusterMap) -> list[str]:
    return [room.name for group in view.groups for room in group.nodes]


def test_cells_show_whose_they_are_then_what_is_held_then_what_is_free() -> None:
    hold = HeldRoom("default/bert", "n1", "2026-01-02T00:05:00Z", "pdb", 1, {"nvidia.com/gpu": "1"})
    pods = [
        pod("resnet-0", job="resnet", node="n1", gpus=2, cpu="1500m"),
        pod("bert-0", job="bert", node="n1", gpus=1),
        pod("over", job="bert", node="n1", gpus=4, phase="Succeeded"),
    ]
    (group,) = show([node("n1", gpus=8)], pods, PublishedLine((), (hold,))).groups
    (room,) = group.nodes

    runs = [(run.initials, run.length, "held" in run.look) for run in room.gpu_runs]
    assert runs == [("BE", 1, False), ("RE", 2, False), ("BE", 1, True), ("", 4, False)]
    assert room.gpu_runs[1].owner == Owner("default", "TFJob", "resnet")
    assert room.gpu_runs[1].label == "TFJob default/resnet: 2 GPUs, 1 pod"
    assert room.gpu_runs[2].label.startswith("1 GPU held for default/bert until ")
    assert [(run.length, run.look == "free") for run in room.cpu_runs] == [
        (1500, False),
        (2500, True),
    ]
    assert (room.usage, room.free_gpus) == ("3 of 8 GPUs, 1.5 of 4 CPUs used", 4)


def test_a_job_that_requests_nothing_is_on_its_node_too() -> None:
    pods = [
        pod("hello-0", job="hello", node="n1"),
        pod("hello-1", job="hello", node="n1"),
        pod("resnet-0", job="resnet", node="n1", gpus=1),
    ]
    view = show([node("n1", gpus=1), node("n2", gpus=1)], pods)
    (run,) = view.groups[0].nodes[0].without_cells

    assert (run.initials, run.length) == ("HE", 2)
    assert run.label == "TFJob default/hello: 2 pods without requests"
    assert 'aria-label="TFJob default/hello: 2 pods without requests"' in html(view)
    assert names(show([node("n1"), node("n2")], pods, text="hello")) == ["n1"]


@pytest.mark.parametrize(
    ("options", "marks", "has_problem"),
    [
        ({}, (), False),
        ({"ready": "Unknown"}, ("lost",), True),
        ({"cordoned": True}, ("cordoned",), True),
        ({"taints": (Taint("team", "a", "NoSchedule"),)}, ("tainted",), False),
        ({"taints": (Taint("team", "a", "PreferNoSchedule"),)}, (), False),
        ({"taints": (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)}, (), False),
        ({"conditions": (Condition(type="DiskPressure", status="True"),)}, ("low on disk",), True),
    ],
)
def test_nodes_are_marked_with_words(
    options: dict[str, object], marks: tuple[str, ...], has_problem: bool
) -> None:
    view = show([node("n1", gpus=1, **options)])  # type: ignore[arg-type]
    room = view.groups[0].nodes[0]

    assert (room.marks, room.has_problem) == (marks, has_problem)
    assert room.open is (marks in ((), ("low on disk",)))
    assert all(f">{mark}</span>" in html(view) for mark in marks)


def test_numbers_count_nodes_gpus_cpus_and_jobs() -> None:
    nodes = [node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=2, cordoned=True)]
    pods = [
        pod("a-0", job="a", node="n1", gpus=3, cpu="1"),
        pod("a-1", job="a", node="n2", gpus=1, cpu="1"),
        pod("dns", node="n2", cpu="100m"),
        pod("b-0", job="b", gpus=4, message="no room"),
        pod("c-0", job="c", node="n2", phase="Pending"),  # its image cannot be pulled
    ]
    numbers = show(nodes, pods).numbers

    assert (numbers.nodes, numbers.problem_nodes, numbers.nodes_with_free_gpus) == (3, 1, 2)
    assert (numbers.gpus, numbers.used_gpus, numbers.free_gpus, numbers.closed_gpus) == (
        10,
        4,
        4,
        2,
    )
    assert (numbers.used_cpus, numbers.cpus) == ("2.1", "12")
    assert (numbers.running, numbers.waiting) == (1, 1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["gpu-1", "gpu-2", "gpu-10"]),
        ({"show": "free"}, ["gpu-2"]),
        ({"show": "problems"}, ["gpu-10"]),
        ({"show": "nonsense"}, ["gpu-1", "gpu-2", "gpu-10"]),
        ({"text": "RESNET"}, ["gpu-1"]),
        ({"text": "gpu-1"}, ["gpu-1", "gpu-10"]),
        ({"text": "nothing"}, []),
    ],
)
def test_nodes_are_filtered_and_sorted_by_number(
    query: dict[str, str], expected: list[str]
) -> None:
    nodes = [node("gpu-10", gpus=1, ready="False"), node("gpu-2", gpus=1), node("gpu-1", gpus=1)]
    pods = [pod("resnet-0", job="resnet", node="gpu-1", gpus=1)]

    assert names(show(nodes, pods, PublishedLine(), **query)) == expected


def test_nodes_are_grouped_by_zone_or_by_the_label_that_the_reader_chooses() -> None:
    nodes = [
        node(f"n{number}", labels={ZONE: f"z{number % 2}", "example.com/rack": f"r{number // 3}"})
        for number in range(6)
    ]
    assert [group.name for group in show(nodes).groups] == ["z0", "z1"]
    assert [group.name for group in show(nodes, group="example.com/rack").groups] == ["r0", "r1"]
    assert [group.name for group in show(nodes, group="name").groups] == ["n"]
    assert show(nodes, group="nothing").grouping == ZONE


def test_nodes_without_labels_are_grouped_by_the_beginning_of_their_names() -> None:
    nodes = [node(f"{kind}-{number:02}") for kind in ("cpu", "gpu") for number in range(8)]

    assert [group.name for group in show(nodes).groups] == ["cpu", "gpu"]
    assert [group.name for group in show([node("anna"), node("bert"), node("carl")]).groups] == [""]


def test_a_cluster_without_nodes_says_how_to_get_some() -> None:
    assert "arena up --nodes 4" in html(show())


def test_a_cluster_without_gpus_does_not_speak_of_them() -> None:
    cpus = html(show([node("n1")], [pod("x-0", job="x", node="n1", cpu="1")]))

    assert "GPU" not in cpus
    assert 'tabindex="-1">X</a>' in cpus  # the letters of the job are below the bar
    assert "with free GPUs" in html(show([node("n1", gpus=1)]))


def test_a_cluster_without_jobs_says_how_to_start_one() -> None:
    empty, busy = show([node("n1", gpus=2)]), show([node("n1")], [pod("x-0", job="x", node="n1")])

    assert '<a href="/submit">the form</a>' in html(empty)
    assert "No job runs" not in html(busy)


def test_a_big_cluster_is_compact_and_bounded() -> None:
    view = show([node(f"n-{number}", gpus=8) for number in range(MAX_NODES + 5)])

    assert not view.large
    assert (view.left_out, len(names(view))) == (5, MAX_NODES)
    text = html(view)
    assert 'class="tile"' in text
    assert "5 more nodes match" in text
    assert "all 2,005" in text
    assert show([node(f"n-{number}") for number in range(LARGE_UP_TO)]).large


def test_hostile_text_stays_text_on_small_and_big_maps() -> None:
    taint = Taint(HOSTILE, HOSTILE, "NoSchedule")
    nodes = [
        node(HOSTILE, gpus=2, ready="False", taints=(taint,), labels={ZONE: HOSTILE}),
        *(node(f"n{number}", gpus=1, labels={ZONE: "z"}) for number in range(LARGE_UP_TO)),
    ]
    pods = [
        pod(HOSTILE, job=HOSTILE, node=HOSTILE, gpus=1, cpu="1"),
        pod(HOSTILE, kind=HOSTILE, job=HOSTILE, node=HOSTILE, gpus=1, cpu="1"),
    ]
    waiting = WaitingGang(HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE, short={HOSTILE: HOSTILE})
    hold = HeldRoom(HOSTILE, HOSTILE, HOSTILE, requests={"cpu": HOSTILE})
    line = PublishedLine((waiting,), (hold,))
    for text in (html(show(nodes, pods, line)), html(show(nodes[:1], pods, line, text=HOSTILE))):
        assert "window.hacked" in text
        assert "<script" not in text
        assert "<img" not in text
        assert 'onerror=window.hacked=1>"' not in text
