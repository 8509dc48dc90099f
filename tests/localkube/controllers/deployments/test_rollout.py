"""Rollouts: bounds that hold at every moment; which sets are created and deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from kubekit.objects import conditions
from localkube.controllers import (
    deployment_revisions,
    deployment_rollout,
    deployment_rollout as decisions,
    replica_set_controller,
)
from localkube.controllers.workloads import Deployment, Pod, ReplicaSet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Raw = dict[str, Any]


def deployment(
    replicas: int = 4, image: str = "a", status: Raw | None = None, **spec: Any
) -> Deployment:
    labels = {"app": "x"}
    body = {
        "metadata": {"name": "d", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {}},
            "template": {"metadata": {"labels": labels}, "spec": {"image": image}},
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(body, Deployment)


@dataclass
class Set:
    """A replica set as it is: `pods` says of each whether it is available."""

    body: Raw
    born: int
    size: int
    pods: list[bool] = field(default_factory=list)
    reported: Raw = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    def sync(self) -> None:
        """What the controller of replica sets does, in one go."""
        self.pods.sort(reverse=True)  # those that are not available go first
        del self.pods[self.size :]
        self.pods += [False] * (self.size - len(self.pods))
        self.report()

    def report(self) -> None:
        self.reported = {
            "replicas": len(self.pods),
            "availableReplicas": sum(self.pods),
            "readyReplicas": sum(self.pods),
        }

    def seen(self) -> ReplicaSet:
        meta = self.body["metadata"] | {
            "uid": self.name,
            "creationTimestamp": (NOW + timedelta(seconds=self.born)).isoformat(),
        }
        spec = self.body["spec"] | {"replicas": self.size}
        body = {"metadata": meta, "spec": spec, "status": self.reported}
        return msgspec.convert(body, ReplicaSet)


class World:
    """A deployment and its sets, whose parts move one at a time."""

    def __init__(self, wanted: Deployment) -> None:
        self.wanted = wanted
        self.sets: dict[str, Set] = {}

    def seen(self) -> list[ReplicaSet]:
        return [one.seen() for one in self.sets.values()]

    def old_pods(self) -> bool:
        new = deployment_revisions.current(self.wanted, self.seen())
        return any(
            one.pods for one in self.sets.values() if not new or one.name != new.metadata.name
        )

    def decide(self) -> bool:
        """Carry out the next steps; whether there are any."""
        plan = decisions.decide(self.wanted, self.seen(), old_pods_left=self.old_pods())
        if plan.create is not None:
            body = deployment_revisions.new_set(self.wanted, {}, plan.create, plan.revision)
            body["metadata"]["annotations"] |= decisions.size_annotations(self.wanted)
            new_set = Set(body, len(self.sets), plan.create)
            self.sets[new_set.name] = new_set
        for update in plan.update:
            target = self.sets[update.target.metadata.name]
            target.size = update.replicas
            target.body["metadata"]["annotations"] = update.annotations
        if plan.write_revision:
            notes = {deployment_revisions.REVISION: str(plan.revision)}
            meta = msgspec.structs.replace(self.wanted.metadata, annotations=notes)
            self.wanted = msgspec.structs.replace(self.wanted, metadata=meta)
        for old in plan.delete:
            del self.sets[old.metadata.name]
        return plan != decisions.Plan(plan.revision)

    def move(self, choice: int) -> None:
        """One of the things that can happen next, chosen by a number."""
        sets = list(self.sets.values())
        waiting = [one for one in sets if False in one.pods]
        moves = [
            self.decide,
            *(one.sync for one in sets),
            *(one.report for one in sets),
            *(lambda one=one: one.pods.__setitem__(one.pods.index(False), True) for one in waiting),
        ]
        moves[choice % len(moves)]()

    def settle(self) -> None:
        """Let everything happen until nothing does."""
        for _ in range(200):
            for one in self.sets.values():
                one.sync()
                one.pods = [True] * len(one.pods)
                one.report()
            if not self.decide():
                return
        raise AssertionError("it never settles")

    @property
    def pods(self) -> int:
        return sum(len(one.pods) for one in self.sets.values())

    @property
    def available(self) -> int:
        return sum(sum(one.pods) for one in self.sets.values())


def updated(wanted: Deployment, image: str) -> Deployment:
    template = {**wanted.spec.template, "spec": {"image": image}}
    return msgspec.structs.replace(
        wanted, spec=msgspec.structs.replace(wanted.spec, template=template)
    )


@settings(max_examples=200)
@given(
    replicas=st.integers(1, 7),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    choices=st.lists(st.integers(0, 100), max_size=60),
)
def test_a_rolling_update_keeps_its_bounds_at_every_moment(
    replicas: int, surge: int, unavailable: int, choices: list[int]
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable if surge or unavailable else 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    world = World(deployment(replicas, strategy=strategy))
    world.settle()
    world.wanted = updated(world.wanted, "b")
    most, least = replicas + surge, replicas - min(rolling["maxUnavailable"], replicas)

    for choice in choices:
        world.move(choice)
        assert deployment_rollout.total_replicas(world.seen()) <= most
        assert world.available >= least

    world.settle()
    new = deployment_revisions.current(world.wanted, world.seen())
    assert new is not None
    assert {one.name: len(one.pods) for one in world.sets.values() if one.pods} == {
        new.metadata.name: replicas
    }


def test_pods_that_an_old_set_is_about_to_lose_are_not_counted_twice() -> None:
    rolling = {"maxSurge": 1, "maxUnavailable": 1}
    world = World(deployment(4, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    world.settle()
    (old,) = world.sets.values()
    world.wanted = updated(world.wanted, "b")
    world.decide()
    (new,) = (one for one in world.sets.values() if one is not old)
    new.sync()
    world.decide()
    assert old.size == 3
    new.pods[0] = True
    new.report()  # and the old set has done nothing yet: it still reports four

    world.decide()
    world.decide()

    assert new.size == 2
    assert old.size + sum(new.pods) >= 3


@settings(max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    choices=st.lists(st.integers(0, 100), max_size=30),
)
def test_scaling_in_the_middle_of_an_update_ends_at_the_last_size(
    sizes: list[int], choices: list[int]
) -> None:
    world = World(deployment(5))
    world.settle()
    world.wanted = updated(world.wanted, "b")
    for size in sizes:
        spec = msgspec.structs.replace(world.wanted.spec, replicas=size)
        world.wanted = msgspec.structs.replace(world.wanted, spec=spec)
        for choice in choices:
            world.move(choice)

    world.settle()

    assert world.pods == world.available == sizes[-1]


@given(choices=st.lists(st.integers(0, 100), max_size=40))
def test_recreate_never_runs_two_templates_at_once(choices: list[int]) -> None:
    world = World(deployment(3, strategy={"type": "Recreate"}))
    world.settle()
    world.wanted = updated(world.wanted, "b")

    for choice in choices:
        world.move(choice)
        assert sum(bool(one.pods) for one in world.sets.values()) <= 1

    world.settle()
    assert (world.pods, world.available) == (3, 3)


def test_a_rollback_reuses_the_old_set_under_a_new_revision() -> None:
    world = World(deployment(2))
    world.settle()
    first = next(iter(world.sets))
    world.wanted = updated(world.wanted, "b")
    world.settle()
    world.wanted = updated(world.wanted, "a")
    world.settle()

    notes = world.sets[first].body["metadata"]["annotations"]
    assert len(world.sets) == 2
    assert (notes[deployment_revisions.REVISION], notes[deployment_revisions.HISTORY]) == ("3", "1")
    assert deployment_revisions.number(world.wanted.metadata) == 3


def test_a_paused_deployment_creates_no_new_set() -> None:
    world = World(deployment(2))
    world.settle()
    spec = msgspec.structs.replace(updated(world.wanted, "b").spec, paused=True)
    world.wanted = msgspec.structs.replace(world.wanted, spec=spec)

    assert not world.decide()


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (4, "25%", "25%", (1, 1)),
        (5, "25%", "25%", (2, 1)),
        (1, "25%", "25%", (1, 0)),
        (3, 0, 0, (0, 1)),
        (3, "0%", "10%", (0, 1)),
        (2, 1, 5, (1, 2)),
    ],
)
def test_bounds_round_as_kubernetes_rounds_them(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}

    assert deployment_rollout.bounds(deployment(replicas, strategy=strategy)) == expected


def test_a_rollout_without_progress_times_out_at_its_deadline() -> None:
    wanted = deployment(2, progressDeadlineSeconds=10)
    new = Set(deployment_revisions.new_set(wanted, {}, 2, 1), 0, 2)
    new.sync()
    first = deployment_rollout.status(wanted, new.seen(), [], NOW)
    wanted = msgspec.structs.replace(wanted, status=first)

    soon = deployment_rollout.status(wanted, new.seen(), [], NOW + timedelta(seconds=9))
    late = deployment_rollout.status(wanted, new.seen(), [], NOW + timedelta(seconds=11))

    assert deployment_rollout.deadline_in(wanted, first, NOW) == 11
    assert conditions.is_true(soon["conditions"], deployment_rollout.PROGRESSING)
    row = conditions.find(late["conditions"], deployment_rollout.PROGRESSING)
    assert row is not None
    assert (row["status"], row["reason"]) == ("False", deployment_rollout.LATE)


def pod(name: str, phase: str, reason: str = "", disrupted: str = "True") -> Pod:
    conditions = [{"type": "DisruptionTarget", "status": disrupted}]
    status = {"phase": phase, "reason": reason, "conditions": conditions}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Pod)


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_pods_stopped_with_their_node_are_deleted(wanted: int) -> None:
    pods = [
        pod("lives", "Running"),
        pod("off", "Failed", "Terminated"),
        pod("failed", "Failed", "Terminated", disrupted="False"),
        pod("evicted", "Failed", "Evicted"),
    ]
    body = {"metadata": {"name": "rs"}, "spec": {"replicas": wanted}}

    step = replica_set_controller.decide(msgspec.convert(body, ReplicaSet), pods, pods)

    gone = {one.metadata.name for one in step.delete}
    assert gone == ({"off", "lives"} if wanted == 0 else {"off"})
    assert step.create == max(0, wanted - 1)


def test_the_hash_of_a_template_changes_with_it_and_after_a_collision() -> None:
    template = deployment().spec.template

    assert deployment_revisions.template_hash(template, 0) == deployment_revisions.template_hash(
        dict(template), 0
    )
    assert deployment_revisions.template_hash(template, 0) != deployment_revisions.template_hash(
        template, 1
    )
