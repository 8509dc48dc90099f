"""What a user writes into a job never ends the operator, and no other job notices."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from muster.jobs.invalid_job import job_from_metadata
from muster.jobs.job import Job
from muster.operator.daemon import _may_expire
from muster.operator.decide.job_decision import decide
from muster.operator.decision_types import Create, EmitEvent, Observed, Patch, PatchStatus, Settings
from tests import hostile_json
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import ALL_DIALECTS, NOW, manifest, replica
from tests.muster.operator.simulation import NS, conditions, operating, passes, submit
from tests.muster.scheduler.hostile_objects import DIGITS, EARLY

DIALECTS = st.sampled_from(["auto", "volcano", "kube-batch", "pdb", "coscheduling", "native"])
ANNOTATIONS = (
    "gang", "gang-dialect", "restart", "topology", "topology-preferred", "hold", "late",
    "model-dir", "starting-deadline-seconds", "evaluator-in-cluster", "rank-0-service-account",
)  # fmt: skip
POLICY = {
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 5,
    "activeDeadlineSeconds": 6,
    "backoffLimit": 2,
    "suspend": False,
    "managedBy": "kubeflow.org/training-operator",
    "schedulingPolicy": {
        "minAvailable": 1,
        "queue": "q",
        "priorityClass": "p",
        "minResources": {"cpu": "2"},
        "scheduleTimeoutSeconds": 3,
    },
}
EXTRA: dict[str, Raw] = {
    "TFJob": {"successPolicy": "AllWorkers", "enableDynamicWorker": True},
    "PyTorchJob": {
        "nprocPerNode": "2",
        "elasticPolicy": {
            "minReplicas": 1,
            "maxReplicas": 3,
            "rdzvBackend": "c10d",
            "rdzvPort": 2,
            "maxRestarts": 3,
            "rdzvConf": [{"key": "a", "value": "b"}],
        },
    },
    "MPIJob": {"slotsPerWorker": 2, "sshAuthMountPath": "/ssh", "mpiImplementation": "OpenMPI"},
    "JAXJob": {},
}
ROLES = {
    "TFJob": ("tensorflow", ["Worker", "PS", "Chief"]),
    "PyTorchJob": ("pytorch", ["Master", "Worker"]),
    "MPIJob": ("mpi", ["Launcher", "Worker"]),
    "JAXJob": ("jax", ["Worker"]),
}
TIME = "2026-01-02T03:00:00Z"
STATUS: Raw = {
    "conditions": [
        {"type": "Created", "status": "True", "reason": "r", "lastTransitionTime": TIME},
        {"type": "Running", "status": "True", "reason": "r", "lastTransitionTime": TIME},
    ],
    "replicaStatuses": {"Worker": {"active": 1, "selector": "x"}},
    "startTime": TIME,
    "earlierSeconds": 3,
    "restarts": 1,
    "launcherAttempt": 1,
    "launcherStart": {"podUid": "x", "workers": 2},
    "formed": True,
    "failures": {"worker-0": {"count": 3, "at": TIME, "ending": "exited with code 1"}},
    "restarted": {"j-worker-0": 1},
    "whole": {"Worker": 1},
    "unclaimed": ["x"],
    "replaced": ["x"],
    "waiting": {"reason": "r", "message": "m", "until": TIME},
    "preempted": "x",
    "earlierRestarts": {"worker-0": 1},
    "unstarted": 0,
}


def full(kind: str) -> Raw:
    """A job of this kind with a value in every field that is read."""
    container, roles = ROLES[kind]

    def role() -> Raw:
        row = replica(1, "OnFailure", container, hostNetwork=True, schedulerName="", volumes=[])
        row["template"]["spec"]["containers"][0] |= {
            "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}},
            "ports": [{"name": "tfjob-port", "containerPort": 2222}],
            "env": [{"name": "A", "value": "b"}],
            "command": ["a"],
        }
        marks = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"]}
        row["template"]["metadata"] = marks
        return row

    raw = manifest(kind, {name: role() for name in roles}, runPolicy=POLICY, **EXTRA[kind])
    raw["metadata"] |= {
        "annotations": {f"muster.dev/{name}": "x" for name in ANNOTATIONS},
        "labels": {"a": "b"},
        "creationTimestamp": TIME,
    }
    return {**raw, "status": STATUS}


def pod(kind: str) -> Raw:
    """A pod of such a job."""
    return {
        "metadata": {
            "name": "j-worker-0",
            "namespace": "ns",
            "uid": "pod",
            "creationTimestamp": TIME,
            "labels": {
                "training.kubeflow.org/job-name": "j",
                "training.kubeflow.org/operator-name": f"{kind.lower()}-controller",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "0",
            },
            "annotations": {"scheduling.k8s.io/group-name": "j", "muster.dev/size": "1"},
            "deletionTimestamp": TIME,
            "deletionGracePeriodSeconds": 30,
            "ownerReferences": [
                {"kind": kind, "name": "j", "uid": "job-uid", "controller": True, "apiVersion": "v"}
            ],
        },
        "spec": {"nodeName": "n", "containers": [{"name": ROLES[kind][0]}], "priority": 1},
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "m",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"},
                {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": TIME},
            ],
            "containerStatuses": [
                {
                    "name": ROLES[kind][0],
                    "restartCount": 3,
                    "state": {
                        "terminated": {"exitCode": 1, "finishedAt": TIME, "message": "m"},
                        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s x"},
                    },
                    "lastState": {"terminated": {"exitCode": 1, "finishedAt": TIME}},
                }
            ],
        },
    }


def read(raw: Raw) -> Job:
    try:
        return parse.parse_job(raw)
    except InvalidJob as error:
        return job_from_metadata(raw, rejected=error.with_hint)


def pods(raw: Raw) -> tuple[Pod, ...]:
    """The pod as its informer holds it; none if it cannot be read."""
    try:
        return (msgspec.json.decode(msgspec.json.encode(raw), type=Pod),)
    except (msgspec.DecodeError, OverflowError):
        return ()


def check(raw: Raw, pod_of_job: Raw, dialect: str) -> None:
    """A decision is made, and everything in it can be sent."""
    _may_expire(raw)
    observed = Observed(pods=pods(pod_of_job), served_dialects=ALL_DIALECTS)
    for action in decide(read(raw), observed, Settings(dialect=dialect), NOW):
        if isinstance(action, Create):
            msgspec.json.encode(action.manifest)
        elif isinstance(action, Patch | PatchStatus):
            msgspec.json.encode(action.change)
        elif isinstance(action, EmitEvent):
            msgspec.json.encode(action.message)


@pytest.mark.parametrize("kind", sorted(ROLES))
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_any_value_in_any_field_of_a_job_or_its_pod_is_decided_about(
    kind: str, data: st.DataObject
) -> None:
    raw = data.draw(hostile_json.changed(full(kind)) | st.just(full(kind)))
    pod_of_job = data.draw(hostile_json.changed(pod(kind)) | st.just(pod(kind)))

    check(raw, pod_of_job, data.draw(DIALECTS))


HOSTILE: dict[str, Any] = {
    "digits": {"annotations": {"muster.dev/starting-deadline-seconds": DIGITS}},
    "superscript": {"annotations": {"muster.dev/starting-deadline-seconds": "²"}},
    "late": {"annotations": {"muster.dev/late": "[" * 30_000, "muster.dev/hold": DIGITS}},
    "dialect": {"annotations": {"muster.dev/gang-dialect": "\0" * 100_000}},
    "quantity": {"runPolicy": {"schedulingPolicy": {"minResources": {"cpu": "1e999999999"}}}},
    "replicas": {"tfReplicaSpecs": {"Worker": {"replicas": 10**30, "template": {}}}},
    "nested": {"tfReplicaSpecs": {"Worker": [[[[[[[[{}]]]]]]]]}},
    "text": {"tfReplicaSpecs": "²"},
    "early": {"status": {"startTime": EARLY, "completionTime": EARLY}},
    "failures": {"status": {"failures": {"worker-0": {"count": 10**20, "at": EARLY}}}},
    "seconds": {"status": {"earlierSeconds": 10**30}},
}


@pytest.mark.looptime
@pytest.mark.parametrize("hostile", sorted(HOSTILE))
async def test_a_job_beside_a_hostile_one_runs(
    hostile: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = ApiInMemory()
    change = dict(HOSTILE[hostile])
    annotations, status = change.pop("annotations", {}), change.pop("status", None)
    path = submit(server, "bad", **change)
    more: Raw = {"metadata": {"annotations": annotations}}
    server.patch(path, more | ({"status": status} if status else {}))
    async with operating(server):
        submit(server, "good")
        await passes(20)

    assert [name for name in server.named("pods") if name.startswith("good-")]
    assert "bug" not in caplog.text


@pytest.mark.looptime
async def test_a_bug_with_one_job_is_told_to_its_users_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, parse_well = True, parse.parse_job

    def parse_job(raw: Raw) -> Job:
        if broken and raw["metadata"]["name"] == "bad":
            raise ZeroDivisionError("x" * 100_000)
        return parse_well(raw)

    monkeypatch.setattr(parse, "parse_job", parse_job)
    server = ApiInMemory()
    path = submit(server, "bad")
    async with operating(server):
        submit(server, "good")
        await passes(60)
        events = [row for name, row in server.objects.items() if f"{NS}/events/" in name]
        (told,) = [row for row in events if row["reason"] == "InternalError"]
        assert [name for name in server.named("pods") if name.startswith("good-")]
        broken = False
        await passes(400)

    assert told["involvedObject"]["name"] == "bad"
    assert told["message"].endswith("tries again: ZeroDivisionError")
    assert "Created" in conditions(server, path)
    assert len(caplog.text) < 100_000


@pytest.mark.looptime
async def test_a_bug_in_taking_in_one_object_does_not_end_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    server = ApiInMemory()
    async with operating(server):
        submit(server, "bad")
        await passes(5)
        # As no server would send it: the indexes of the operator cannot read it.
        group = next(path for path in server.objects if path.endswith("/podgroups/bad"))
        uid = server.objects[group]["metadata"]["ownerReferences"][0]["uid"]
        owners = [{"kind": 5, "uid": uid, "controller": "yes"}]
        server.patch(group, {"metadata": {"ownerReferences": owners}})
        submit(server, "good")
        await passes(20)

    assert [name for name in server.named("pods") if name.startswith("good-")]
    assert "watch of podgroups ns/bad: bug" in caplog.text
