"""Twenty jobs at any time: a job that has ended is checked, deleted and followed by another one.

A job is hit while its gate is closed. The gate opens when it was hit often enough or is old enough;
then the job must end as its policy says. The lock is held by whoever hits a pod or opens a gate, so
that no job is hit while it ends.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Lock

from kubekit.client.blocking_client import BlockingClient
from kubekit.errors import MusterError
from kubekit.objects.core import Pod
from kubekit.objects.kinds import BATCH_JOBS, PODS, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import AlreadyExists, NotFound
from muster.contract.job_kinds import JOB_KINDS
from tests.e2e.campaign.jobs import allowed, job
from tests.e2e.chaos import JOB, Chaos
from tests.e2e.local_cluster import LocalCluster

KINDS = {kind.kind: kind for kind in (*JOB_KINDS, BATCH_JOBS)}
POLICIES = (
    *["retry", "never", "gang"] * 3,
    *["code", "limit", "doomed", "torch"] * 2,
    *["jax", "mpi", "batch"],
)
WORK = 40
MOST_HITS = 2
CONDITIONS = {"Succeeded": "SUCCEEDED", "Complete": "SUCCEEDED", "Failed": "FAILED"}


@dataclass
class Slot:
    """One of the twenty jobs, from its submission to its deletion."""

    policy: str
    name: str = ""
    lifetime: float = 0.0
    submitted: float = 0.0
    running_since: float = 0.0
    opened: float = 0.0
    state: str = "free"
    """free, submitted, open, ended"""


@dataclass
class JobSlots:
    """`outcomes` counts policy and outcome; `finds` are outcomes that a policy does not allow."""

    local: LocalCluster
    gate: Path
    random: Random
    log: Callable[[str], None]
    chaos: Chaos = field(init=False)
    lock: Lock = field(default_factory=Lock)
    finds: list[str] = field(default_factory=list)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    slots: list[Slot] = field(default_factory=lambda: [Slot(policy) for policy in POLICIES])
    closing: bool = False
    """No successors any more, and all gates open."""
    _number: int = 0

    def may_hit(self, pod: Pod) -> bool:
        name = pod.metadata.labels[JOB]
        slot = next((slot for slot in self.slots if slot.name == name), None)
        hits = self.chaos.killed[name] + self.chaos.deleted[name]
        if slot is None or slot.state != "submitted" or hits >= MOST_HITS:
            return False
        # A gang ends by itself: it is hit only while its end is far.
        seen = time.monotonic() - slot.running_since
        return slot.policy != "gang" or (slot.running_since > 0 and seen < WORK / 3)

    def run(self, stop: Event) -> None:
        """Care for the slots until `stop` is set."""
        while not stop.wait(1.0):
            with contextlib.suppress(MusterError, OSError), self.local.client() as client:
                stored = self._stored(client)
                for slot in self.slots:
                    self._advance(slot, stored, client)

    def _stored(self, client: BlockingClient) -> dict[str, Raw]:
        return {
            item["metadata"]["name"]: item
            for kind in KINDS.values()
            for item in client.list(kind, "default").items
        }

    def _advance(self, slot: Slot, stored: dict[str, Raw], client: BlockingClient) -> None:
        if slot.state == "free":
            if not self.closing:
                self._submit(slot, client)
            return
        if slot.name not in stored:
            if slot.state == "ended":
                slot.state = "free"
            elif time.monotonic() - slot.submitted > 1:  # the list is older than the job
                self._create(slot, client)
            return
        outcome = _outcome(stored[slot.name])
        if slot.state == "submitted":
            self._open_gate(slot, stored[slot.name], outcome)
        if outcome and slot.state != "ended":
            self._check(slot, outcome, stored[slot.name])
        if slot.state == "ended":
            with contextlib.suppress(NotFound):
                # A batch/v1 Job keeps its pods otherwise.
                key = Key("default", slot.name)
                client.delete(self._kind(slot), key, propagation="Background")

    def _submit(self, slot: Slot, client: BlockingClient) -> None:
        self._number += 1
        slot.name = f"{slot.policy}-{self._number}"
        slot.lifetime = self.random.uniform(20, 100)
        slot.running_since = slot.opened = 0.0
        slot.state = "submitted"
        self._create(slot, client)

    def _create(self, slot: Slot, client: BlockingClient) -> None:
        body = job(slot.name, self.gate, WORK if slot.policy == "gang" else 1, slot.name)
        slot.submitted = time.monotonic()
        with contextlib.suppress(AlreadyExists):
            client.create(self._kind(slot), body, namespace="default")

    def _kind(self, slot: Slot) -> Kind[Raw]:
        kinds = {"torch": "PyTorchJob", "jax": "JAXJob", "mpi": "MPIJob", "batch": "Job"}
        return KINDS[kinds.get(slot.policy, "TFJob")]

    def _open_gate(self, slot: Slot, stored: Raw, outcome: str) -> None:
        if not slot.running_since and _is_running(stored):
            slot.running_since = time.monotonic()
        hits = self.chaos.killed[slot.name] + self.chaos.deleted[slot.name]
        old = slot.running_since and time.monotonic() - slot.running_since > slot.lifetime
        if hits >= MOST_HITS or old or outcome or self.closing:
            with self.lock:
                (self.gate / slot.name).touch()
                slot.opened = time.monotonic()
                slot.state = "open"

    def _check(self, slot: Slot, outcome: str, stored: Raw) -> None:
        killed, deleted = self.chaos.killed[slot.name], self.chaos.deleted[slot.name]
        expected = allowed(slot.name, killed, deleted)
        self.outcomes[slot.policy, outcome] += 1
        slot.state = "ended"
        text = f"{slot.name} {outcome}, killed {killed}, deleted {deleted}"
        self.log(text)
        if outcome not in expected:
            self.finds.append(f"{text}: its policy allows {sorted(expected)}; {stored['status']}")
            self.log(f"FIND {self.finds[-1]}")

    def unfinished(self) -> list[str]:
        """The jobs that have not ended, each with the state of its pods."""
        names = {slot.name: slot.state for slot in self.slots if slot.state != "free"}
        if not names:
            return []
        with self.local.client() as client:
            pods = client.list(PODS, "default").items
        return [f"{name} {state}: {_pods_of(name, pods)}" for name, state in names.items()]


def _pods_of(name: str, pods: list[Pod]) -> list[str]:
    return [
        f"{pod.metadata.name} {pod.status.phase} deleted {pod.metadata.deletion_timestamp} "
        f"{[c.state for c in pod.status.container_statuses]}"
        for pod in pods
        if pod.metadata.labels.get(JOB) == name
    ]


def _is_running(stored: Raw) -> bool:
    status = stored.get("status") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or []}
    return conditions.get("Running") == "True" or bool(status.get("active"))


def _outcome(stored: Raw) -> str:
    for condition in (stored.get("status") or {}).get("conditions") or []:
        if condition["type"] in CONDITIONS and condition["status"] == "True":
            return CONDITIONS[condition["type"]]
    return ""
