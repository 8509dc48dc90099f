"""Jobs, pods and a model of the cluster, for tests of decisions."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kubekit.objects.core import Pod, Service
from kubekit.objects.kinds import PODS, SERVICES
from kubekit.objects.meta import Raw, timestamp
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs import parse
from muster.jobs.job import Job
from muster.jobs.view.summary import JobSummary, summarize
from muster.operator.decide.job_decision import decide
from muster.operator.decision_types import (
    Action,
    Create,
    Delete,
    DeleteJob,
    EmitEvent,
    Observed,
    Patch,
    PatchStatus,
    RecordExits,
    Requeue,
    Settings,
    VerifyJob,
)
from tests.api_in_memory import merged

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ALL_DIALECTS = frozenset(GROUP_KIND_BY_RESOURCE)


def template(name: str = "tensorflow", **spec: Any) -> Raw:
    return {"spec": {"containers": [{"name": name, "image": "img"}], **spec}}


def replica(count: int = 1, restart: str = "", name: str = "tensorflow", **spec: Any) -> Raw:
    body: Raw = {"replicas": count, "template": template(name, **spec)}
    if restart:
        body["restartPolicy"] = restart
    return body


def manifest(kind: str = "TFJob", roles: Raw | None = None, name: str = "j", **spec: Any) -> Raw:
    """A job as the API server returns it."""
    job_kind = JOB_KIND_BY_NAME[kind]
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "uid": "job-uid", "generation": 1},
        "spec": {
            job_kind.replicas_field: roles or {"Worker": replica(2), "PS": replica(1)},
            **spec,
        },
    }


class Model:
    """The objects of one job; pods that are deleted are removed only by `collect`."""

    def __init__(self, raw: Raw, settings: Settings | None = None, **observed: Any) -> None:
        self.raw = copy.deepcopy(raw)
        self.settings = settings or Settings()
        self.now = NOW
        self.pods: dict[str, Pod] = {}
        self.manifests: dict[str, Raw] = {}
        self.services: dict[str, Raw] = {}
        self.objects: dict[tuple[str, str], Raw] = {}
        self.extra = {"served_dialects": ALL_DIALECTS, **observed}
        self.events: list[EmitEvent] = []
        self.deleted = False
        self.uids = 0
        self.log: list[Action] = []

    @property
    def job(self) -> Job:
        return parse.parse_job(self.raw)

    @property
    def status(self) -> Raw:
        status: Raw = self.raw.get("status") or {}
        return status

    @property
    def view(self) -> JobSummary:
        """The job as commands show it."""
        return summarize(self.raw, self.pods.values())

    def observed(self) -> Observed:
        return Observed(
            pods=tuple(self.pods.values()),
            services=tuple(msgspec.convert(s, Service) for s in self.services.values()),
            objects=self.objects,
            **self.extra,
        )

    def decide(self) -> list[Action]:
        return decide(self.job, self.observed(), self.settings, self.now)

    def step(self) -> list[Action]:
        """Decide once and apply the actions; returns them without timers."""
        actions = self.decide()
        for action in actions:
            self._do(action)
        changes: list[Action] = [a for a in actions if not isinstance(a, Requeue | VerifyJob)]
        self.log.extend(changes)
        return changes

    def settle(self) -> None:
        """Decide and apply, and remove deleted pods, until no action is left."""
        for _ in range(20):
            if not self.step():
                if not any(p.metadata.deletion_timestamp for p in self.pods.values()):
                    return
                self.collect()
        raise AssertionError(f"never settles: {self.decide()}")

    def collect(self) -> None:
        """Remove the pods that were deleted."""
        self.pods = {n: p for n, p in self.pods.items() if p.metadata.deletion_timestamp is None}

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def wait(self) -> float | None:
        """Seconds until the next reconcile that the decision requests."""
        return min((a.seconds for a in self.decide() if isinstance(a, Requeue)), default=None)

    def pod(self, name: str, **status: Any) -> None:
        """Give a pod a status."""
        pod = self.pods[name]
        converted = msgspec.convert(status, type(pod.status))
        self.pods[name] = msgspec.structs.replace(pod, status=converted)

    def run(self, *pods: str, phase: str = "Running", **status: Any) -> None:
        for name in pods or tuple(self.pods):
            self.pod(name, phase=phase, **status)

    def exit(
        self,
        name: str,
        code: int,
        container: str = "tensorflow",
        restarts: int = 0,
        message: str = "",
    ) -> None:
        """End the pod's container with this exit code."""
        phase = "Succeeded" if code == 0 else "Failed"
        end = {"exitCode": code, "finishedAt": timestamp(self.now), "message": message}
        row = {
            "name": container,
            "state": {"terminated": end},
            "restartCount": restarts,
        }
        self.pod(name, phase=phase, containerStatuses=[row])

    def request_deletion(self, name: str, grace: int = 30) -> None:
        """Request the deletion of a pod, as a drain, a preemption or a user does."""
        pod = self.pods[name]
        meta = msgspec.structs.replace(
            pod.metadata,
            deletion_timestamp=self.now + timedelta(seconds=grace),
            deletion_grace_period_seconds=grace,
        )
        self.pods[name] = msgspec.structs.replace(pod, metadata=meta)

    def conditions(self) -> list[str]:
        """The types of the conditions in order, such as `Created`, `Running(False)`, `Failed`."""
        rows = self.status.get("conditions") or []
        return [r["type"] + ("" if r["status"] == "True" else "(False)") for r in rows]

    def edit(self, **spec: Any) -> None:
        """Change the job's spec, as a user does."""
        self.raw["spec"] = {**self.raw["spec"], **spec}
        self.raw["metadata"]["generation"] += 1

    def _do(self, action: Action) -> None:
        match action:
            case Create():
                self._create(action)
            case Delete():
                self._delete(action)
            case Patch():
                key = (action.kind.resource, action.name)
                if key in self.objects:
                    self.objects[key] = merged(self.objects[key], action.change)
            case PatchStatus():
                self.raw["status"] = merged(self.status, action.change)
            case EmitEvent():
                self.events.append(action)
            case RecordExits():
                self.extra["reported_exits"] = action.exits
            case DeleteJob():
                self.deleted = True
            case Requeue() | VerifyJob():
                pass

    def _create(self, action: Create) -> None:
        self.uids += 1
        given = {"uid": f"uid-{self.uids}", "creationTimestamp": timestamp(self.now)}
        body = merged(action.manifest, {"metadata": given})
        if action.kind == PODS:
            assert action.name not in self.pods, f"{action.name} was created twice"
            self.manifests[action.name] = body
            self.pods[action.name] = msgspec.convert({**body, "status": {"phase": "Pending"}}, Pod)
        elif action.kind == SERVICES:
            assert action.name not in self.services
            self.services[action.name] = body
        else:
            assert (action.kind.resource, action.name) not in self.objects
            self.objects[(action.kind.resource, action.name)] = body

    def _delete(self, action: Delete) -> None:
        if action.kind == PODS:
            pod = self.pods[action.name]
            assert pod.metadata.uid == action.uid
            meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=self.now)
            self.pods[action.name] = msgspec.structs.replace(pod, metadata=meta)
        elif action.kind == SERVICES:
            del self.services[action.name]
        else:
            del self.objects[(action.kind.resource, action.name)]


def env(pod: Raw, container: str = "tensorflow") -> dict[str, str]:
    """The variables of a container that have a plain value."""
    rows = next(c for c in pod["spec"]["containers"] if c["name"] == container).get("env") or []
    return {row["name"]: row.get("value", "") for row in rows}
