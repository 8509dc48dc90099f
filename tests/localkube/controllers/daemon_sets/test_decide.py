"""The next steps of a daemon set, and the nodes that fit it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from localkube.controllers import daemon_set_decision as decision
from localkube.controllers.daemon_set_controller import FIRST_DELAY, FailedPods
from localkube.controllers.daemon_set_decision import (
    Fit,
    Plan,
    Progress,
    daemon_set_status,
    mend,
    roll,
)
from localkube.controllers.workloads import DaemonSet, Node, Pod
from tests.localkube.controllers.builders import NOW, pod_in


def daemon_set(spec: dict[str, Any] | None = None, **rolling: object) -> DaemonSet:
    strategy = {"rollingUpdate": rolling} if rolling else {}
    body = {
        "metadata": {"name": "w", "uid": "u", "generation": 2},
        "spec": {"template": {"spec": spec or {}}, "updateStrategy": strategy},
    }
    return msgspec.convert(body, DaemonSet)


def node(name: str, labels: dict[str, str] | None = None, taint: str = "") -> Node:
    taints = [{"key": "a", "effect": taint}] if taint else []
    body = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints}}
    return msgspec.convert(body, Node)


def pod(node: str, state: str = "ready", revision: str = "new", name: str = "") -> Pod:
    return pod_in(state, name or f"w-{node}", revision, nodeName=node)


def progress(owner: DaemonSet, *pods: Pod, nodes: int = 3, held: str = "") -> Progress:
    all_nodes = [node(f"n{number}") for number in range(nodes)]
    return Progress(owner, all_nodes, list(pods), "new", NOW, frozenset(held.split()))


def deleted(plan: Plan) -> list[str]:
    return [pod.metadata.name for pod in plan.delete]


def test_each_node_gets_one_pod() -> None:
    assert mend(progress(daemon_set())).create == ["n0", "n1", "n2"]
    assert mend(progress(daemon_set(), pod("n1"))).create == ["n0", "n2"]
    assert deleted(mend(progress(daemon_set(), pod("n0"), pod("n0", name="x"), nodes=1))) == ["x"]


def test_a_pod_that_is_being_deleted_is_replaced_when_it_is_gone() -> None:
    assert not mend(progress(daemon_set(), pod("n0", "terminating"), nodes=1))


def test_a_pod_that_ended_is_deleted_with_an_event() -> None:
    plan = mend(progress(daemon_set(), pod("n0", "failed"), pod("n1", "succeeded"), nodes=2))

    assert deleted(plan) == ["w-n0", "w-n1"]
    assert plan.failed_on == ["n0"]
    assert [event.reason for event in plan.events] == ["FailedDaemonPod", "SucceededDaemonPod"]


def test_failed_pods_are_deleted_ever_later() -> None:
    now = [0.0]
    failed = FailedPods(lambda: now[0])

    failed.deleted("u", "n0")
    assert failed.in_backoff("u") == {"n0"}
    now[0] = FIRST_DELAY
    assert failed.in_backoff("u") == frozenset()
    failed.deleted("u", "n0")
    assert failed.next_in("u") == 2 * FIRST_DELAY
    assert not mend(progress(daemon_set(), pod("n0", "failed"), nodes=1, held="n0"))


def test_an_update_deletes_as_many_old_pods_as_may_be_unavailable() -> None:
    old = [pod(f"n{number}", revision="old") for number in range(3)]

    assert deleted(roll(progress(daemon_set(), *old))) == ["w-n0"]
    assert deleted(roll(progress(daemon_set(maxUnavailable="50%"), *old))) == ["w-n0", "w-n1"]
    assert deleted(roll(progress(daemon_set(), pod("n0", "starting"), *old[1:]))) == []
    assert deleted(roll(progress(daemon_set(), pod("n0"), *old[1:]))) == ["w-n1"]


def test_old_pods_that_are_not_available_are_replaced_at_once() -> None:
    old = [pod(f"n{number}", "starting", "old") for number in range(3)]

    assert deleted(roll(progress(daemon_set(), *old))) == ["w-n0", "w-n1", "w-n2"]


def test_a_surge_starts_new_pods_first() -> None:
    surging = daemon_set(maxSurge=1, maxUnavailable=0)
    old = [pod(f"n{number}", revision="old") for number in range(3)]
    new = pod("n0", name="new")

    assert roll(progress(surging, *old)).create == ["n0"]
    assert not roll(progress(surging, *old, pod("n0", "starting", name="new")))
    assert deleted(mend(progress(surging, *old, new))) == ["w-n0"]


def test_a_surge_keeps_a_pod_on_a_node_that_fits_no_longer_until_others_are_available() -> None:
    surging = daemon_set({"nodeSelector": {"disk": "ssd"}}, maxSurge=1, maxUnavailable=0)
    tainted = node("old", {"disk": "ssd"}, "NoSchedule")
    nodes, left = [tainted, node("n1", {"disk": "ssd"})], pod("old", revision="old")
    starting, ready = pod("n1", "starting"), pod("n1")

    assert not roll(Progress(surging, nodes, [left, starting], "new", NOW))
    assert deleted(roll(Progress(surging, nodes, [left, ready], "new", NOW))) == ["w-old"]


def test_on_delete_updates_nothing() -> None:
    owner = msgspec.convert({"spec": {"updateStrategy": {"type": "OnDelete"}}}, DaemonSet)

    assert not roll(progress(owner, pod("n0", revision="old")))


@pytest.mark.parametrize(
    ("spec", "candidate", "expected"),
    [
        ({}, node("n"), Fit.RUN),
        ({"nodeName": "m"}, node("n"), Fit.LEAVE),
        ({"nodeSelector": {"disk": "ssd"}}, node("n"), Fit.LEAVE),
        ({"nodeSelector": {"disk": "ssd"}}, node("n", {"disk": "ssd"}), Fit.RUN),
        ({}, node("n", taint="NoSchedule"), Fit.STAY),
        ({}, node("n", taint="PreferNoSchedule"), Fit.RUN),
        ({}, node("n", taint="NoExecute"), Fit.LEAVE),
        ({"tolerations": [{"operator": "Exists"}]}, node("n", taint="NoExecute"), Fit.RUN),
    ],
)
def test_nodes_that_fit(spec: dict[str, Any], candidate: Node, expected: Fit) -> None:
    assert decision.fit_of(decision.pod_spec({"spec": spec}), candidate) is expected


def test_a_daemon_pod_stays_on_a_node_in_trouble() -> None:
    rows = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    timed = [{**rows[0], "tolerationSeconds": 300}]

    assert decision.tolerations({"tolerations": timed}) == decision.tolerations({})
    assert rows[0] in decision.tolerations({})
    assert len(decision.tolerations({"hostNetwork": True})) == len(decision.tolerations({})) + 1


def test_the_status_counts_nodes() -> None:
    tainted = node("n9", taint="NoSchedule")
    pods = [pod("n0"), pod("n1", "starting", "old"), pod("n9")]
    counted = Progress(
        daemon_set(), [node("n0"), node("n1"), node("n2"), tainted], pods, "new", NOW
    )

    assert daemon_set_status(counted) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "observedGeneration": 2,
    }
