"""The next steps of a stateful set."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, strategies as st

from localkube.controllers.stateful_set_decision import (
    Plan,
    Progress,
    decide,
    is_member,
    new_pod,
    stateful_set_status,
)
from localkube.controllers.workloads import Pod, StatefulSet
from tests.localkube.controllers.builders import NOW, pod_in


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    body = {"metadata": {"name": "w", "uid": "u"}, "spec": {"replicas": replicas, **spec}}
    return msgspec.convert(body, StatefulSet)


def pod(ordinal: int, state: str = "ready", revision: str = "new") -> Pod:
    return pod_in(state, f"w-{ordinal}", revision)


def renamed(name: str) -> Pod:
    member = pod(0)
    return msgspec.structs.replace(
        member, metadata=msgspec.structs.replace(member.metadata, name=name)
    )


def plan(owner: StatefulSet, *pods: Pod) -> Plan:
    numbered = {int(pod.metadata.name.rpartition("-")[2]): pod for pod in pods}
    return decide(Progress(owner, numbered, "old", "new", NOW))


def deleted(steps: Plan) -> list[str]:
    return [pod.metadata.name for pod in steps.delete]


def test_each_pod_waits_for_the_one_before_it() -> None:
    assert plan(stateful_set()).create == [(0, "new")]
    assert plan(stateful_set(), pod(0, "starting")).create == []
    assert plan(stateful_set(), pod(0)).create == [(1, "new")]


def test_in_parallel_all_start_and_stop_at_once() -> None:
    parallel = stateful_set(podManagementPolicy="Parallel")
    fewer = stateful_set(1, podManagementPolicy="Parallel")

    assert plan(parallel, pod(1, "starting")).create == [(0, "new"), (2, "new")]
    assert deleted(plan(fewer, pod(0), pod(1), pod(2))) == ["w-2", "w-1"]


def test_the_last_pod_stops_first_and_alone() -> None:
    fewer = stateful_set(1)

    assert deleted(plan(fewer, pod(0), pod(1), pod(2))) == ["w-2"]
    assert deleted(plan(fewer, pod(0), pod(1), pod(2, "terminating"))) == []
    assert deleted(plan(fewer, pod(0, "starting"), pod(1))) == []


def test_an_update_replaces_one_pod_at_a_time_down_to_the_partition() -> None:
    parted = stateful_set(
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    )
    old = [pod(ordinal, revision="old") for ordinal in range(3)]

    assert deleted(plan(stateful_set(), *old)) == ["w-2"]
    assert deleted(plan(stateful_set(), *old[:2], pod(2, "starting"))) == []
    assert deleted(plan(stateful_set(), *old[:2], pod(2))) == ["w-1"]
    assert deleted(plan(parted, old[0], pod(1), pod(2))) == []
    assert plan(parted, pod(1), pod(2)).create == [(0, "old")]
    assert deleted(plan(stateful_set(updateStrategy={"type": "OnDelete"}), *old)) == []


def test_a_pod_that_ended_is_deleted_and_made_again() -> None:
    assert deleted(plan(stateful_set(), pod(0, "failed"))) == ["w-0"]
    assert plan(stateful_set(), pod(0, "failed")).create == []


def test_a_finished_update_makes_its_revision_the_current_one() -> None:
    progress = Progress(stateful_set(2), {0: pod(0), 1: pod(1)}, "old", "new", NOW)

    assert stateful_set_status(progress)["currentRevision"] == "new"
    assert stateful_set_status(progress)["currentReplicas"] == 2


@given(
    replicas=st.integers(0, 5),
    states=st.dictionaries(
        st.integers(0, 6),
        st.tuples(
            st.sampled_from(["ready", "starting", "terminating", "failed", "pending"]),
            st.sampled_from(["old", "new"]),
        ),
    ),
)
def test_an_ordered_set_takes_one_step_at_a_time(
    replicas: int, states: dict[int, tuple[str, str]]
) -> None:
    pods = {ordinal: pod(ordinal, *state) for ordinal, state in states.items()}

    steps = decide(Progress(stateful_set(replicas), pods, "old", "new", NOW))

    assert len(steps.create) + len(steps.delete) <= 1
    assert not {ordinal for ordinal, _ in steps.create} & set(pods)
    assert all(not pod.terminating for pod in steps.delete)
    for ordinal, _ in steps.create:
        before = [pods.get(other) for other in range(ordinal)]
        assert all(p is not None and p.status.phase == "Running" for p in before)


def test_only_pods_named_by_the_set_and_a_number_are_its_members() -> None:
    owner = stateful_set()

    assert is_member(owner, pod(0))
    assert not is_member(owner, renamed("other"))
    assert not is_member(owner, renamed("w-x"))
    assert not is_member(owner, renamed("other-w-0"))


def test_a_pod_has_the_finalizers_of_the_template() -> None:
    template = {"metadata": {"finalizers": ["example.com/keep"], "labels": {"app": "w"}}}

    meta = new_pod(stateful_set(), template, "new", 0)["metadata"]

    assert meta["finalizers"] == ["example.com/keep"]
    assert meta["labels"]["app"] == "w"
