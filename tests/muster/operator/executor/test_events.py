"""Every event and every metric of the operator, each with the steps that cause it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.client.request import Response
from kubekit.telemetry.metrics import REGISTRY
from muster.operator.daemon import Options, build
from tests.api_in_memory import ApiInMemory, status_response
from tests.muster.operator.builders import NOW, manifest, replica
from tests.muster.words import exited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.objects.meta import Raw

pytestmark = pytest.mark.looptime
JOB = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j"
POD = "/api/v1/namespaces/ns/pods"


@asynccontextmanager
async def operating(server: ApiInMemory) -> AsyncIterator[None]:
    manager = build(Client(server), Options(), lambda: NOW)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()


async def submit(server: ApiInMemory, restart: str = "", **spec: Any) -> None:
    raw = manifest(roles={"Worker": replica(2, restart), "PS": replica(1, restart)}, **spec)
    del raw["metadata"]["uid"]
    server.put(JOB, raw)
    await asyncio.sleep(5)


async def edit(server: ApiInMemory, spec: Raw) -> None:
    generation = (server.get(JOB) or {})["metadata"]["generation"] + 1
    server.patch(JOB, {"metadata": {"generation": generation}, "spec": spec})
    await asyncio.sleep(5)


async def end(server: ApiInMemory, pod: str, code: int) -> None:
    row = {"name": "tensorflow", "state": {"terminated": {"exitCode": code}}}
    phase = "Failed" if code else "Succeeded"
    server.patch(f"{POD}/{pod}", {"status": {"phase": phase, "containerStatuses": [row]}})
    await asyncio.sleep(5)


async def succeeds(server: ApiInMemory) -> None:
    await submit(server, runPolicy={"cleanPodPolicy": "All"})
    await end(server, "j-worker-0", 0)


async def fails(server: ApiInMemory) -> None:
    await submit(server)
    await end(server, "j-worker-1", 3)


async def restarts(server: ApiInMemory) -> None:
    await submit(server, "OnFailure")
    await end(server, "j-worker-1", 137)


async def restarts_in_place(server: ApiInMemory) -> None:
    await submit(server, "OnFailure")
    ended = {"terminated": {"exitCode": 9}}
    rows: list[Raw] = [
        {"state": ended},
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended},
        {"state": {"running": {}}, "lastState": ended, "restartCount": 1},
    ]
    for row in rows:
        status = {"phase": "Running", "containerStatuses": [{"name": "tensorflow", **row}]}
        server.patch(f"{POD}/j-worker-1", {"status": status})
        await asyncio.sleep(5)


async def pauses(server: ApiInMemory) -> None:
    await submit(server)
    await edit(server, {"runPolicy": {"suspend": True}})
    await edit(server, {"runPolicy": {"suspend": False}})


async def expires(server: ApiInMemory) -> None:
    await submit(server, runPolicy={"ttlSecondsAfterFinished": 0})
    await end(server, "j-worker-0", 0)


async def cannot_expire(server: ApiInMemory) -> None:
    server.forbidden = {"DELETE tfjobs"}
    await expires(server)


async def may_not_create_pods(server: ApiInMemory) -> None:
    server.refused = {"pods"}
    await submit(server)


async def may_not_create_services(server: ApiInMemory) -> None:
    server.refused = {"services"}
    await submit(server)


async def may_not_delete(server: ApiInMemory) -> None:
    server.forbidden = {"DELETE pods", "DELETE services", "DELETE podgroups"}
    await succeeds(server)


async def may_not_delete_pods(server: ApiInMemory) -> None:
    server.forbidden = {"DELETE pods"}
    await succeeds(server)


async def may_not_delete_services(server: ApiInMemory) -> None:
    server.forbidden = {"DELETE services"}
    await succeeds(server)


async def may_not_write_its_status(server: ApiInMemory) -> None:
    server.forbidden = {"PATCH tfjobs"}
    await submit(server)
    await asyncio.sleep(60)  # pace: virtual, for more attempts


async def may_not_look_at_it(server: ApiInMemory) -> None:
    await submit(server)
    server.forbidden = {"GET tfjobs/j"}
    server.remove(f"{POD}/j-ps-0")
    await asyncio.sleep(60)  # pace: virtual


async def makes_no_sense(server: ApiInMemory) -> None:
    await submit(server, successPolicy="Nobody")


async def is_odd(server: ApiInMemory) -> None:
    raw = manifest(roles={"Worker": replica(2, schedulerName="mine", restartPolicy="Always")})
    del raw["metadata"]["uid"]
    server.put(JOB, raw)
    await asyncio.sleep(5)


async def finds_its_name_taken(server: ApiInMemory) -> None:
    server.put(f"{POD}/j-worker-0", {"metadata": {"name": "j-worker-0"}})
    await submit(server)
    await asyncio.sleep(60)


async def has_no_image(server: ApiInMemory) -> None:
    await submit(server)
    for word in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull"):
        row = {"name": "tensorflow", "state": {"waiting": {"reason": word, "message": "no image"}}}
        server.patch(f"{POD}/j-ps-0", {"status": {"containerStatuses": [row]}})
        await asyncio.sleep(5)


async def keeps_crashing(server: ApiInMemory) -> None:
    await submit(server, "OnFailure")
    for seconds in (10, 20, 40):
        waiting = {"reason": "CrashLoopBackOff", "message": f"back-off {seconds}s"}
        ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
        row = {"name": "tensorflow", "state": {"waiting": waiting}, "lastState": ended}
        for rows in ([row], []):
            server.patch(f"{POD}/j-ps-0", {"status": {"containerStatuses": rows}})
            await asyncio.sleep(5)


TOLD = [
    (succeeds, "Normal", "SuccessfulCreatePod", "Created pods: j-ps-0, j-worker-0, j-worker-1"),
    (succeeds, "Normal", "SuccessfulDeletePod", "Deleted pods: j-"),
    (succeeds, "Normal", "SuccessfulCreateService", "Created services: j-ps-0, j-worker-0, j-wor"),
    (succeeds, "Normal", "SuccessfulDeleteService", "Deleted services: j-"),
    (succeeds, "Normal", "JobTerminated", "Job has been terminated. Deleting PodGroup"),
    (succeeds, "Normal", "SuccessfulDeletePodGroup", "Deleted PodGroup: j"),
    (succeeds, "Normal", "ExitedWithCode", "Pod: ns.j-worker-0 exited with code 0"),
    (succeeds, "Normal", "TFJobSucceeded", "TFJob ns/j successfully completed."),
    (fails, "Normal", "TFJobFailed", "TFJob ns/j "),
    (fails, "Normal", "ExitedWithCode", "Pod: ns.j-worker-1 exited with code 3"),
    (restarts, "Warning", "TFJobRestarting", "job j "),
    (restarts, "Normal", "SuccessfulDeletePod", "Deleted pod: j-worker-1"),
    (restarts, "Normal", "ExitedWithCode", "Pod: ns.j-worker-1 exited with code 137"),
    (restarts_in_place, "Normal", "ExitedWithCode", "Pod: ns.j-worker-1 exited with code 9"),
    (pauses, "Normal", "TFJobSuspended", "TFJob j is suspended."),
    (pauses, "Normal", "TFJobResumed", "TFJob j is resumed."),
    (expires, "Normal", "SuccessfulDeleteJob", "Deleted job: j"),
    (cannot_expire, "Warning", "FailedDeleteJob", "Error deleting: "),
    (may_not_create_pods, "Warning", "FailedCreatePod", "Error creating: "),
    (may_not_create_services, "Warning", "FailedCreateService", "Error creating: "),
    (may_not_delete_pods, "Warning", "FailedDeletePod", "Error deleting: "),
    (may_not_delete_services, "Warning", "FailedDeleteService", "Error deleting: "),
    (may_not_delete, "Warning", "FailedDeletePodGroup", "Error deleting: "),
    (may_not_delete_pods, "Warning", "MissingRight", "muster-operator may not delete pods; add"),
    (cannot_expire, "Warning", "MissingRight", "muster-operator may not delete tfjobs.kubeflow.or"),
    (may_not_write_its_status, "Warning", "MissingRight", "muster-operator may not patch tfjobs/"),
    (may_not_look_at_it, "Warning", "MissingRight", "muster-operator may not get tfjobs.kubeflow"),
    (makes_no_sense, "Warning", "InvalidSpec", "spec.successPolicy"),
    (is_odd, "Warning", "SetPodTemplateRestartPolicy", "spec.tfReplicaSpecs.Worker.template"),
    (is_odd, "Warning", "SetPodTemplateSchedulerName", "spec.tfReplicaSpecs.Worker.template"),
    (finds_its_name_taken, "Warning", "ErrResourceExists", "Pod j-worker-0 "),
    (keeps_crashing, "Warning", "CrashLoopBackOff", f"Pod j-ps-0 {exited(3)}"),
    (has_no_image, "Warning", "ImagePullBackOff", "Pod j-ps-0: no image"),
]


@pytest.mark.parametrize(
    ("story", "type_", "reason", "words"), TOLD, ids=lambda value: getattr(value, "__name__", None)
)
async def test_an_event_is_emitted_once(story: Any, type_: str, reason: str, words: str) -> None:
    server = ApiInMemory()
    async with operating(server):
        await story(server)

    events = [obj for path, obj in server.objects.items() if "/events/" in path]
    (event,) = (row for row in events if row["reason"] == reason)
    assert event["type"] == type_
    assert event["message"].startswith(words)
    assert event["involvedObject"]["name"] == "j"
    assert event["source"] == {"component": "tfjob-controller"}


class WithQuota(ApiInMemory):
    """A server that creates so many pods, and tells how many others used the rest of the quota."""

    pods = 1
    refusals = 0

    def _create(self, path: str, body: Raw) -> Response:
        if "/pods/" not in path or len(self.named("pods")) < self.pods:
            return super()._create(path, body)
        self.refusals += 1
        name = body["metadata"]["name"]
        used = f'pods "{name}" is forbidden: exceeded quota: q, used: cpu={self.refusals}'
        return status_response(403, "Forbidden", used)

    def told(self) -> list[str]:
        events = [obj for path, obj in self.objects.items() if "/events/" in path]
        return [row["message"] for row in events if row["reason"] == "FailedCreatePod"]


async def test_a_quota_that_refuses_pods_again_and_again_is_told_once_per_wait() -> None:
    server = WithQuota()
    async with operating(server):
        await submit(server)
        (message,) = server.told()
        assert message.startswith("Error creating: ")
        assert "exceeded quota: q" in message
        await asyncio.sleep(600)  # pace: virtual
        assert server.refusals > 20
        assert len(server.told()) == 1
        server.pods = 9
        await asyncio.sleep(100)  # pace: virtual
        assert len(server.named("pods")) == 3
        server.pods = 2
        server.remove(f"{POD}/j-worker-1")
        await asyncio.sleep(60)  # pace: virtual

    assert len(server.told()) == 2


async def test_pods_that_are_created_before_a_quota_refuses_another_have_their_event() -> None:
    server = WithQuota()
    async with operating(server):
        await submit(server)

    events = [obj for path, obj in server.objects.items() if "/events/" in path]
    told = [row["message"] for row in events if row["reason"] == "SuccessfulCreatePod"]
    assert told[0].startswith("Created pod: j-")
    assert len(server.told()) == 1


class WithTerminatingNamespace(ApiInMemory):
    """A server that deletes the namespace: nothing new is created in it."""

    is_terminating = False

    def _create(self, path: str, body: Raw) -> Response:
        if not self.is_terminating:
            return super()._create(path, body)
        why = "unable to create new content in namespace ns because it is being terminated"
        cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": why}
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": why}
        details = {"name": "j", "kind": "pods", "causes": [cause]}
        return Response(403, {}, json.dumps({**status, "details": details}).encode())


async def test_in_a_namespace_that_is_being_deleted_nothing_is_created_again_or_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = WithTerminatingNamespace()
    async with operating(server):
        await submit(server)
        server.is_terminating = True
        server.remove(f"{POD}/j-worker-1")
        await asyncio.sleep(600)  # pace: virtual
        tries = [row for row in server.requests if (row.method, row.path) == ("POST", POD)]

    assert len(tries) <= 5  # three of the start
    assert [row.message for row in caplog.records if row.levelname == "WARNING"] == []


async def test_an_ordinary_job_emits_few_events() -> None:
    server = ApiInMemory()
    async with operating(server):
        await submit(server)
        await end(server, "j-worker-0", 0)

    events = [obj["reason"] for path, obj in server.objects.items() if "/events/" in path]
    assert sorted(events) == [
        "ExitedWithCode",
        "JobTerminated",
        "SuccessfulCreatePod",
        "SuccessfulCreateService",
        "SuccessfulDeletePodGroup",
        "TFJobSucceeded",
    ]


async def test_a_repeated_exit_of_the_same_container_is_counted_on_its_event() -> None:
    server = ApiInMemory()
    async with operating(server):
        await submit(server, "OnFailure")
        for restarts in (1, 2):
            row = {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 9}}}
            row |= {"name": "tensorflow", "restartCount": restarts}
            server.patch(
                f"{POD}/j-ps-0", {"status": {"phase": "Running", "containerStatuses": [row]}}
            )
            await asyncio.sleep(5)

    events = [obj for path, obj in server.objects.items() if "/events/" in path]
    (event,) = (row for row in events if row["reason"] == "ExitedWithCode")
    assert event["count"] == 2


async def test_many_pods_that_exit_together_share_an_event() -> None:
    server = ApiInMemory()
    async with operating(server):
        raw = manifest(roles={"Worker": replica(12)}, successPolicy="AllWorkers")
        del raw["metadata"]["uid"]
        server.put(JOB, raw)
        await asyncio.sleep(5)
        row = {"name": "tensorflow", "state": {"terminated": {"exitCode": 0}}}
        for index in range(12):
            status = {"phase": "Succeeded", "containerStatuses": [row]}
            server.patch(f"{POD}/j-worker-{index}", {"status": status})
        await asyncio.sleep(5)

    events = [obj for path, obj in server.objects.items() if "/events/" in path]
    messages = [row["message"] for row in events if row["reason"] == "ExitedWithCode"]
    assert len(messages) <= 8
    told = " ".join(messages)
    assert "exited with code 0" in told
    assert "j-worker-0" in told


def job(event: str) -> tuple[str, dict[str, str]]:
    return "muster_jobs_total", {"namespace": "ns", "kind": "TFJob", "event": event}


def objects(resource: str, verb: str) -> tuple[str, dict[str, str]]:
    return "muster_job_objects_total", {"resource": resource, "verb": verb}


def failures(resource: str, verb: str) -> tuple[str, dict[str, str]]:
    return "muster_job_object_failures_total", {"resource": resource, "verb": verb}


GROUPS = "podgroups.scheduling.volcano.sh"
COUNTED = [
    (succeeds, job("Created"), 1),
    (succeeds, job("Succeeded"), 1),
    (fails, job("Failed"), 1),
    (restarts, job("Restarting"), 1),
    (expires, job("Deleted"), 1),
    (makes_no_sense, job("InvalidSpec"), 1),
    (succeeds, objects("pods", "create"), 3),
    (succeeds, objects("pods", "delete"), 3),
    (succeeds, objects("services", "create"), 3),
    (succeeds, objects(GROUPS, "create"), 1),
    (succeeds, objects(GROUPS, "delete"), 1),
    (may_not_create_pods, failures("pods", "create"), 3),
    (may_not_create_services, failures("services", "create"), 3),
    (may_not_delete_pods, failures("pods", "delete"), 3),
]


@pytest.mark.parametrize(
    ("story", "number", "least"), COUNTED, ids=lambda value: getattr(value, "__name__", None)
)
async def test_jobs_and_objects_are_counted_in_metrics(
    story: Any, number: tuple[str, dict[str, str]], least: int
) -> None:
    before = REGISTRY.get_sample_value(*number) or 0.0
    server = ApiInMemory()
    async with operating(server):
        await story(server)

    counted = (REGISTRY.get_sample_value(*number) or 0.0) - before
    retried = number[0] == "muster_job_object_failures_total"
    assert counted >= least if retried else counted == least
