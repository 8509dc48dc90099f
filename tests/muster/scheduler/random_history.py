"""A cluster that random events happen to, with a scheduler on it, all in plain function calls.

Every invariant that can be judged at once is judged where it could break: a bind when it is
decided, a node's capacity when a bind lands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np

from kubekit.objects.core import Node, Pod
from kubekit.objects.meta import Condition, Key
from kubekit.objects.storage import (
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from muster.contract.gang import (
    PLAN_ANNOTATION,
    PREFERRED_TOPOLOGY_ANNOTATION,
    TOPOLOGY_ANNOTATION,
    GangKey,
)
from muster.contract.pod_groups import VOLCANO_POD_GROUPS, HyperNode, VolcanoPodGroup
from muster.scheduler.decisions.bind_failures import BindFailure, bind_failed
from muster.scheduler.decisions.decision import Bind, Decision, Delete
from muster.scheduler.decisions.gang_decision import check_rest, consider
from muster.scheduler.gangs.phase import Leaving
from muster.scheduler.gangs.waiting_line import Parked
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import GPU, START, hyper_node, node, pod, volcano_group
from tests.muster.scheduler.volume_builders import using

replace = msgspec.structs.replace
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
TIERS = {"HyperNodes of tier 1": 1, "HyperNodes of tier 2": 2}
"""Levels that a gang needs by its networkTopology: HyperNodes for racks, and for zones."""
LABEL_OF_TIER = {1: RACK, 2: ZONE}
OVERLAPPING = {1: ("0123", "2345", "4567", "6789", "1359"), 2: ("01234567", "23456789")}
"""The last digits of the nodes in HyperNodes that overlap, by tier."""

Consider = Callable[[State, GangKey, float], Decision]


def hyper_nodes() -> list[HyperNode]:
    """A HyperNode of tier 1 for each rack, and of tier 2 for each zone."""
    racks = [
        hyper_node(f"rack{i}", 1, {"labelMatch": {"matchLabels": {RACK: f"r{i}"}}})
        for i in range(1, 5)
    ]
    zones = [
        hyper_node(f"zone{i}", 2, *({"inner": f"rack{r}"} for r in range(1, 5) if r // 2 == i))
        for i in range(3)
    ]
    return racks + zones


def overlapping_hyper_nodes() -> list[HyperNode]:
    return [
        hyper_node(f"tier{tier}-{digits}", tier, {"regexMatch": {"pattern": f"[{digits}]$"}})
        for tier, sets in OVERLAPPING.items()
        for digits in sets
    ]


def bound(pod: Pod, where: str, bind: Bind, now: float) -> Pod:
    """The pod as the API server leaves it after a Binding."""
    at = START + timedelta(seconds=now)
    scheduled = Condition("PodScheduled", "True", last_transition_time=at)
    marks = {**pod.metadata.annotations, PLAN_ANNOTATION: bind.annotation}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=marks),
        spec=replace(pod.spec, node_name=where),
        status=replace(pod.status, phase="Running", conditions=(scheduled,)),
    )


class RandomHistory:
    """The cluster's objects, and a scheduler that watches them."""

    def __init__(
        self,
        *,
        preempt: bool,
        starvation_after: float = 1800.0,
        hyper_nodes: Sequence[HyperNode] = (),
        consider: Consider = consider,
    ) -> None:
        self._consider = consider
        self.settings = Settings(preempt=preempt, starvation_after=starvation_after)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, VolcanoPodGroup] = {}
        self.shapes: dict[str, tuple[int, int, int]] = {}
        self.in_flight: list[tuple[Bind, Pod, str]] = []
        self.now = 0.0
        self.name_counter = 0
        self.was_whole: set[str] = set()
        self.landed: Counter[str] = Counter()
        self.intact: set[str] = set()
        """Gangs that have been whole since they last had no member running."""
        self.ended: set[str] = set()
        """Members that succeeded and were not made anew, also when their objects are gone."""
        self.claims: dict[str, VolumeClaim | None] = {}
        self.claim_of: dict[str, str] = {}
        """The claim that the first member of a gang uses."""
        self.lost_groups: set[str] = set()
        self.hidden: dict[str, Node] = {}
        self.gone: dict[str, Node] = {}
        self.levels: dict[str, str] = {}
        """The label of which the members of a gang need one value."""
        self.wishes: dict[str, str] = {}
        """The label of which they prefer one value."""
        self.all_hyper_nodes = {item.metadata.name: item for item in hyper_nodes}
        self.hyper_nodes = dict(self.all_hyper_nodes)
        self.state = State(self.settings)
        self._sync_storage()
        self._sync_hyper_nodes()

    # -- events ------------------------------------------------------------------------------------

    def add_node(self, gpus: int, rack: int = 0) -> None:
        """A node; without a rack if that is 0. Its zone has two racks."""
        self.name_counter += 1
        labels = {RACK: f"r{rack}", ZONE: f"z{rack // 2}"} if rack else {}
        self._node(node(f"n{self.name_counter:03d}", gpus=gpus, pods=8, labels=labels))

    def hide_node(self, number: int) -> None:
        """The node's object goes, and its pods stay: it may come back."""
        name = self._pick(sorted(self.nodes), number)
        if name is not None:
            self.hidden[name] = self.nodes.pop(name)
            self.state.node_changed(self.hidden[name], None)

    def show_nodes(self) -> None:
        """The nodes that were hidden come back with their pods."""
        for item in self.hidden.values():
            self._node(item)
        self.hidden.clear()

    def lose_node(self, number: int) -> None:
        """The node's object goes, and its pods with it."""
        name = self._pick(sorted(self.nodes), number)
        if name is not None:
            self.gone[name] = self.nodes.pop(name)
            self.state.node_changed(self.gone[name], None)
            for lost_pod in [p for p in self.pods.values() if p.spec.node_name == name]:
                self.remove(lost_pod.metadata.name)

    def cordon(self, number: int) -> None:
        name = self._pick(sorted(self.nodes), number)
        if name is not None:
            old = self.nodes[name]
            self._node(replace(old, spec=replace(old.spec, unschedulable=True)))

    def arrive(self, size: int, least: int, gpus: int, priority: int) -> None:
        """A gang, its group first."""
        self.name_counter += 1
        name = f"g{self.name_counter:03d}"
        marks = {TOPOLOGY_ANNOTATION: self.levels.get(name, "")}
        marks[PREFERRED_TOPOLOGY_ANNOTATION] = self.wishes.get(name, "")
        tier = TIERS.get(marks[TOPOLOGY_ANNOTATION])
        spec: dict[str, Any] = {}
        if tier is not None:
            spec, marks[TOPOLOGY_ANNOTATION] = {"networkTopology": {"highestTierAllowed": tier}}, ""
        self.groups[name] = volcano_group(
            name, min(least, size), created=self.name_counter, annotations=marks, spec=spec
        )
        self.shapes[name] = (size, gpus, priority)
        self.state.group_changed(
            VOLCANO_POD_GROUPS, self.groups[name].metadata.key, self.groups[name]
        )
        self.recreate()

    def arrive_in_one(
        self, level: str, size: int, least: int, gpus: int, priority: int, wish: str = ""
    ) -> None:
        """A gang whose members need one value of a label."""
        name = f"g{self.name_counter + 1:03d}"
        self.levels[name] = level
        self.wishes[name] = wish
        self.arrive(size, least, gpus, priority)

    def recreate(self) -> None:
        """What a controller does: every member that is not there is made anew."""
        for name, (size, gpus, priority) in self.shapes.items():
            for i in range(size):
                member = f"{name}-{i}"
                old = self.pods.get(member)
                if old is not None and old.status.phase == "Failed":
                    self.remove(member)
                if member not in self.pods:
                    self.now += 0.01
                    self.ended.discard(member)
                    claim = self.claim_of.get(name, "") if i == 0 else ""
                    spec = using(claim) if claim else {}
                    each: dict[str, Any] = {"gpus": gpus, "priority": priority, "spec": spec}
                    self._pod(pod(member, group=name, created=self.now, **each))

    def kill(self, number: int, outcome: str) -> None:
        bound = sorted(p.metadata.name for p in self.pods.values() if p.spec.node_name)
        name = self._pick(bound, number)
        if name is None:
            return
        if outcome == "delete":
            self.remove(name)
        else:
            old = self.pods[name]
            self._pod(replace(old, status=replace(old.status, phase=outcome)))
        if outcome == "Succeeded":
            self.ended.add(name)

    def rerun(self, number: int) -> None:
        """All members of a gang that runs succeed, are cleaned up, and are made anew one by one."""
        name = self._pick(sorted(n for n, s in self.shapes.items() if self._runs(n, s[0])), number)
        if name is None:
            return
        members = [member.metadata.name for member in self.bound(name)]
        for member in members:
            old = self.pods[member]
            self._pod(replace(old, status=replace(old.status, phase="Succeeded")))
        self.decide()
        for member in members:
            self.remove(member)
        self.decide()
        self.intact.discard(name)
        self.recreate()

    def _runs(self, name: str, size: int) -> bool:
        return len(self.bound(name)) == size

    def befriend(self, number: int) -> None:
        """Another scheduler places a pod of its own that says it belongs to one of the gangs."""
        name = self._pick(sorted(self.groups), number)
        if name is not None:
            self.name_counter += 1
            member = pod(
                f"other-{self.name_counter}", group=name, scheduler="someone-else", cpu="0"
            )
            self._pod(member)

    def grow(self, number: int) -> None:
        """One more member of a gang, beyond its minimum."""
        name = self._pick(sorted(self.shapes), number)
        if name is not None:
            size, gpus, priority = self.shapes[name]
            self.shapes[name] = (size + 1, gpus, priority)
            self.recreate()

    def arrive_with_claim(self, size: int, least: int, storage: str) -> None:
        """A gang whose first member uses a claim: unbound, waiting for a node, or missing."""
        claim = f"claim{self.name_counter}"
        self.claim_of[f"g{self.name_counter + 1:03d}"] = claim
        self._claim(claim, storage)
        self.arrive(size, least, 1, 0)

    def bind_claim(self, number: int) -> None:
        """A claim is bound to a volume that every node reaches."""
        name = self._pick(sorted(self.claims), number)
        if name is not None:
            self._put_volume(name)
            self._claim(name, "late", f"volume-{name}")

    def lose_group(self, number: int) -> None:
        name = self._pick(sorted(set(self.groups) - self.lost_groups), number)
        if name is not None:
            self.lost_groups.add(name)
            key = self.groups[name].metadata.key
            self.state.group_changed(VOLCANO_POD_GROUPS, key, None)

    def restore_groups(self) -> None:
        for name in sorted(self.lost_groups):
            group = self.groups[name]
            self.state.group_changed(VOLCANO_POD_GROUPS, group.metadata.key, group)
        self.lost_groups.clear()

    def lose_hyper_node(self, number: int) -> None:
        name = self._pick(sorted(self.hyper_nodes), number)
        if name is not None:
            self.state.hyper_node_changed(self.hyper_nodes.pop(name).metadata.key, None)

    def restore_hyper_nodes(self) -> None:
        self.hyper_nodes = dict(self.all_hyper_nodes)
        self._sync_hyper_nodes()

    def uncordon(self, number: int) -> None:
        name = self._pick(sorted(self.nodes), number)
        if name is not None:
            old = self.nodes[name]
            self._node(replace(old, spec=replace(old.spec, unschedulable=False)))

    def land(self, number: int, outcome: str) -> None:
        """One bind in flight is answered."""
        if not self.in_flight:
            return
        self.now += 0.01
        bind, wanted, where = self.in_flight.pop(number % len(self.in_flight))
        current = self.pods.get(wanted.metadata.name)
        if current is None or current.metadata.uid != wanted.metadata.uid:
            bind_failed(self.state, bind.gang, wanted, self.now, BindFailure(gone=True))
        elif outcome == "refused":
            bind_failed(self.state, bind.gang, wanted, self.now, BindFailure(gone=False, why="no"))
        elif not current.spec.node_name:
            self._pod(bound(current, where, bind, self.now))
            self.landed[bind.plan] += 1
            if self.landed[bind.plan] == len(bind.pairs):  # a member may be lost already
                self.was_whole.add(bind.gang.name)
            self._check_capacity(where)

    def restart(self) -> None:
        """The scheduler dies with binds in flight, which are lost, and another one starts."""
        self.in_flight = []
        self.name_counter += 1
        self.state = State(self.settings, process_id=f"run{self.name_counter}")
        self.state.now = self.now
        for existing in reversed([*self.pods.values()]):
            self.state.pod_changed(None, existing)
        for name, group in self.groups.items():
            if name not in self.lost_groups:
                self.state.group_changed(VOLCANO_POD_GROUPS, group.metadata.key, group)
        self._sync_storage()
        self._sync_hyper_nodes()
        for item in self.nodes.values():
            self.state.node_changed(None, item)

    def decide(self, seconds: float = 0.0) -> None:
        """Time passes and the scheduler looks at what is due."""
        self.now += seconds
        for key in self.state.due(self.now):
            for action in self._consider(self.state, key, self.now).actions:
                if isinstance(action, Bind):
                    self._check_whole(action)
                    assert all(p.spec.scheduler_name == "muster" for p, _ in action.pairs)
                    self.in_flight += [(action, member, where) for member, where in action.pairs]
                elif isinstance(action, Delete):
                    whole = action.gang.name in self.intact and action.reason == "Released"
                    assert not whole, f"{action.gang}: was whole, and was released"
                    for victim in action.pods:
                        if self.pods.get(victim.metadata.name) is victim:
                            self.remove(victim.metadata.name)
        for name in self.groups:
            if len(self.bound(name)) + self.succeeded(name) >= self.groups[name].spec.min_member:
                self.was_whole.add(name)
                self.intact.add(name)
            if not self.bound(name):
                self.intact.discard(name)

    # -- the truth ---------------------------------------------------------------------------------

    def bound(self, gang: str) -> list[Pod]:
        members = (p for p in self.pods.values() if p.metadata.name.startswith(f"{gang}-"))
        return [p for p in members if p.spec.node_name and not p.finished]

    def succeeded(self, gang: str) -> int:
        """Members that succeeded, also those whose objects went with their node."""
        return sum(member.startswith(f"{gang}-") for member in self.ended)

    def remove(self, name: str) -> None:
        self.state.pod_changed(self.pods.pop(name), None)

    def check_books(self) -> None:
        """The arrays say what a fresh count of the slots says."""
        snapshot = self.state.snapshot
        snapshot.settle()
        fresh = snapshot.nodes.allocatable.copy()
        for slot in snapshot.slots.values():
            row = snapshot.nodes.rows.get(slot.node)
            if row is not None:
                fresh[slot.cls.columns, row] -= slot.cls.amounts
        assert np.array_equal(fresh, snapshot.nodes.free)

    def check_rests(self) -> None:
        """Every gang with pending members has a reason, and something that will wake it."""
        state = self.state
        for key, gang in state.index.gangs.items():
            record = state.record(key)
            rest, waiting = record.rest, bool(state.members(gang).pending)
            phase = record.phase
            awaited = phase.awaited if isinstance(phase, Leaving) else frozenset[str]()
            under_way = any(uid in state.assumed or uid in awaited for uid in gang.pods)
            assert check_rest(rest, waiting=waiting, under_way=under_way) == "", key
            if isinstance(rest, Parked):
                assert state.parked[key] is rest
                assert rest.until is None or (state.line.timer_of(key) or 0) <= rest.until
            else:
                assert key not in state.parked

    def check_nothing_was_missed(self) -> None:
        """A look at every gang binds nothing more than the events did."""
        for key in list(self.state.index.gangs):
            self.state.mark_due(key)
        self.decide()
        assert self.in_flight == [], "a gang that fits was not woken"

    def check_domains(self) -> None:
        """The members of a gang with a required level are in one domain, binds in flight too."""
        for name, level_name in self.levels.items():
            level = LABEL_OF_TIER[TIERS[level_name]] if level_name in TIERS else level_name
            nodes = self._nodes_of(name)
            known = {**self.nodes, **self.hidden, **self.gone}
            domains = {known[where].metadata.labels.get(level, "") for where in nodes}
            assert len(domains) <= 1, f"{name}: {sorted(nodes)} in {sorted(domains)}"
            assert "" not in domains, f"{name}: a node without {level}"

    def check_overlapping_domains(self) -> None:
        """The members of a gang that needs a HyperNode are all in one, although these overlap."""
        for name, level in self.levels.items():
            digits = {where[-1] for where in self._nodes_of(name)}
            tiers = range(1, TIERS[level] + 1)
            allowed = (set(nodes) for tier in tiers for nodes in OVERLAPPING[tier])
            assert any(digits <= nodes for nodes in allowed), f"{name}: {level}: {sorted(digits)}"

    def _nodes_of(self, gang: str) -> set[str]:
        """The nodes of a gang's members, and of its binds in flight."""
        nodes = {member.spec.node_name for member in self.bound(gang)}
        return nodes | {where for bind, _, where in self.in_flight if bind.gang.name == gang}

    def _check_whole(self, bind: Bind) -> None:
        name = bind.gang.name
        least = self.groups[name].spec.min_member
        flying = {member.metadata.uid for b, member, _ in self.in_flight if b.gang == bind.gang}
        there = len(self.bound(name)) + self.succeeded(name) + len(flying)
        held = len(self.state.snapshot.held_for.get(GangKey("volcano", "default", name), ()))
        assert there + len(bind.pairs) + held >= least, f"{name}: bound below its minimum"

    def _check_capacity(self, where: str) -> None:
        if where not in self.nodes:
            return
        here = [p for p in self.pods.values() if p.spec.node_name == where and not p.finished]
        used: Counter[str] = Counter()
        for member in here:
            used[GPU] += int(member.spec.containers[0].resources.requests.get(GPU, 0))
        room = self.nodes[where].status.allocatable
        assert len(here) <= int(room["pods"])
        assert used[GPU] <= int(room.get(GPU, 0)), f"{where} is over its capacity"

    def _sync_storage(self) -> None:
        late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
        storage = msgspec.convert(late | {"provisioner": "disks"}, StorageClass)
        self.state.storage_changed(STORAGE_CLASSES, Key("", "late"), storage)
        for name, claim in self.claims.items():
            if claim is not None and claim.spec.volume_name:
                self._put_volume(name)
            self.state.storage_changed(VOLUME_CLAIMS, Key("default", name), claim)

    def _sync_hyper_nodes(self) -> None:
        for item in self.hyper_nodes.values():
            self.state.hyper_node_changed(item.metadata.key, item)

    def _claim(self, name: str, storage: str, volume: str = "") -> None:
        raw = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"storageClassName": storage, "volumeName": volume},
            "status": {"phase": "Bound" if volume else "Pending"},
        }
        claim = None if storage == "missing" else msgspec.convert(raw, VolumeClaim)
        self.claims[name] = claim
        self.state.storage_changed(VOLUME_CLAIMS, Key("default", name), claim)

    def _put_volume(self, claim: str) -> None:
        raw = {"metadata": {"name": f"volume-{claim}"}, "status": {"phase": "Bound"}}
        volume = msgspec.convert(raw, PersistentVolume)
        self.state.storage_changed(VOLUMES, volume.metadata.key, volume)

    def _pod(self, new: Pod) -> None:
        old = self.pods.get(new.metadata.name)
        self.pods[new.metadata.name] = new
        self.state.now = self.now
        self.state.pod_changed(old, new)

    def _node(self, new: Node) -> None:
        old = self.nodes.get(new.metadata.name)
        self.nodes[new.metadata.name] = new
        self.state.node_changed(old, new)

    @staticmethod
    def _pick(names: list[str], number: int) -> str | None:
        return names[number % len(names)] if names else None
