"""The executor carries out exactly the actions that `decide` orders, in order: random histories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.control.event_recorder import EventRecorder
from muster.operator import daemon
from muster.operator.decide.job_decision import decide
from muster.operator.decision_types import (
    Action,
    Create,
    Delete,
    DeleteJob,
    EmitEvent,
    Patch,
    PatchStatus,
    VerifyJob,
)
from muster.operator.executor import Executor
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import replica
from tests.muster.operator.simulation import JOB, NS, POD, operating, passes, phase, submit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client.request import Request, Response
    from kubekit.objects.events import EventText
    from muster.jobs.job import Job

pytestmark = pytest.mark.looptime
STEPS = 60


class Journal(ApiInMemory):
    """A server that records every request for jobs and their objects, and whether it failed."""

    def __init__(self) -> None:
        super().__init__(slow=0)
        self.journal: list[tuple[str, str]] = []
        self.failed: list[int] = []

    async def send(self, request: Request) -> Response:
        number = len(self.journal)
        if "/events" not in request.path:
            self.journal.append((request.method, request.path))
        response = await super().send(request)
        if response.status >= 400 and "/events" not in request.path:
            self.failed.append(number)
        return response


@dataclass
class Spy:
    """Compares each decided list with the requests and events that carrying it out caused."""

    server: Journal
    decided: list[Action] = field(default_factory=list)
    events: list[EventText] = field(default_factory=list)
    mismatches: list[object] = field(default_factory=list)
    lists: int = 0
    kinds: set[type] = field(default_factory=set)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        apply, record = Executor.apply, EventRecorder.record

        def decide_and_note(*args: Any) -> list[Action]:
            self.decided = decide(*args)
            return list(self.decided)

        async def apply_and_compare(executor: Executor, job: Job, actions: Sequence[Action]) -> Any:
            self.expect(list(actions), self.decided)
            start, failures = len(self.server.journal), len(self.server.failed)
            self.events.clear()
            try:
                return await apply(executor, job, actions)
            finally:
                complete = len(self.server.failed) == failures
                self.compare(job, actions, self.server.journal[start:], complete)

        def record_and_note(recorder: EventRecorder, subject: Any, text: EventText) -> None:
            self.events.append(text)
            record(recorder, subject, text)

        monkeypatch.setattr(daemon, "decide", decide_and_note)
        monkeypatch.setattr(Executor, "apply", apply_and_compare)
        monkeypatch.setattr(EventRecorder, "record", record_and_note)

    def compare(
        self, job: Job, actions: Sequence[Action], sent: list[tuple[str, str]], complete: bool
    ) -> None:
        self.lists += 1
        self.kinds |= {type(action) for action in actions}
        ordered = [request for action in actions if (request := as_request(job, action))]
        if not complete:
            # A refused stage ends the list; reads that find out the reason are not part of it.
            sent = [request for request in sent if request[0] != "GET" or request in ordered]
            self.expect(sent, ordered[: len(sent)])
            return
        self.expect(sent, ordered)
        emitted = [action for action in actions if isinstance(action, EmitEvent)]
        self.expect([event for event in self.events if event in emitted], emitted)

    def expect(self, actual: object, wanted: object) -> None:
        """Record a difference; an exception would only make the control loop retry."""
        if actual != wanted:
            self.mismatches.append((actual, wanted))


def as_request(job: Job, action: Action) -> tuple[str, str] | None:
    own = job.job_kind.resource
    match action:
        case VerifyJob():
            return "GET", own.path(job.namespace, job.name)
        case Create():
            return "POST", action.kind.path(job.namespace)
        case Patch():
            return "PATCH", action.kind.path(job.namespace, action.name)
        case Delete():
            return "DELETE", action.kind.path(job.namespace, action.name)
        case PatchStatus():
            return "PATCH", own.path(job.namespace, job.name, "status")
        case DeleteJob():
            return "DELETE", own.path(job.namespace, job.name)
        case _:
            return None


def edit(server: ApiInMemory, **spec: Any) -> None:
    generation = (server.get(JOB) or {})["metadata"]["generation"] + 1
    server.patch(JOB, {"metadata": {"generation": generation}, "spec": spec})


def on_a_pod(server: ApiInMemory, dice: random.Random) -> None:
    """Change one of the job's pods at random."""
    pod = dice.choice(server.named("pods"))
    match dice.choice(["run", "run", "run", "fail", "evict", "succeed", "lose", "orphan"]):
        case "run":
            phase(server, pod, "Running")
        case "fail":
            phase(server, pod, "Failed", reason="Error")
        case "evict":
            phase(server, pod, "Failed", reason="Evicted")
        case "succeed":
            phase(server, pod, "Succeeded")
        case "lose":
            server.remove(f"{POD}/{pod}")
        case _:  # orphan
            server.patch(f"{POD}/{pod}", {"metadata": {"ownerReferences": []}})


def on_the_job(server: ApiInMemory, dice: random.Random) -> None:
    """The user changes the job."""
    match dice.choice(["suspend", "resume", "resume", "scale", "spoil", "mend", "mend", "expire"]):
        case "suspend":
            edit(server, runPolicy={"suspend": True})
        case "resume":
            edit(server, runPolicy={"suspend": False})
        case "scale":
            edit(server, tfReplicaSpecs={"Worker": {"replicas": dice.randint(1, 4)}})
        case "spoil":
            edit(server, tfReplicaSpecs={"PS": {"replicas": -1}})
        case "mend":
            edit(server, tfReplicaSpecs={"PS": {"replicas": 1}})
        case _:  # expire
            edit(server, runPolicy={"ttlSecondsAfterFinished": 10})


def on_a_name(server: ApiInMemory, dice: random.Random) -> None:
    """An object of another owner takes a name that the job may need, or frees it."""
    path = f"/api/v1/{NS}/{dice.choice(['services', 'pods'])}/j-worker-2"
    if path not in server.objects:
        server.put(path, {"metadata": {"name": "j-worker-2"}})
    elif not server.objects[path]["metadata"].get("ownerReferences"):
        server.remove(path)


def on_deletion(server: ApiInMemory, dice: random.Random) -> None:
    """The job is deleted, perhaps without its objects."""
    if dice.random() < 0.5:
        for path in server.owned.pop((server.get(JOB) or {})["metadata"]["uid"], ()):
            if path in server.objects:
                server.patch(path, {"metadata": {"ownerReferences": None}})
    server.remove(JOB)


def happen(server: ApiInMemory, dice: random.Random) -> None:
    if server.get(JOB) is None:
        policy = {"cleanPodPolicy": dice.choice(["All", "Running", "None"]), "backoffLimit": 4}
        roles = {"Worker": replica(2, "OnFailure"), "PS": replica(1, "OnFailure")}
        submit(server, roles=roles, runPolicy=policy)
        return
    chances = [on_the_job, on_the_job, on_a_name, on_deletion]
    if server.named("pods"):
        chances += [on_a_pod] * 6
    dice.choice(chances)(server, dice)


@pytest.mark.parametrize("seed", range(12))
async def test_the_executor_carries_out_every_decision_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, dice = Journal(), random.Random(seed)
    spy = Spy(server)
    spy.install(monkeypatch)
    async with operating(server, workers=1):
        for _ in range(STEPS):
            happen(server, dice)
            await passes(dice.choice([0.01, 1, 30]))

    assert spy.mismatches == []
    assert spy.lists >= STEPS / 4
    assert {Create, PatchStatus, EmitEvent} <= spy.kinds
