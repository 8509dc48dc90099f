"""Jobs: every pod counted exactly once; when a job ends, and how."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from kubekit.objects import conditions
from kubekit.objects.meta import MAX_SECONDS, timestamp
from localkube.controllers import (
    batch_job_controller as manifests,
    batch_job_decision,
    batch_job_pods,
    batch_job_pods as ledger,
)
from localkube.controllers.workloads import Job, Pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Raw = dict[str, Any]


class World:
    """A job, its pods and a clock. A crash between any two writes is a `step` that ends early."""

    def __init__(self, **spec: Any) -> None:
        self.spec = spec
        self.status: Raw = {}
        self.pods: dict[str, Raw] = {}
        self.now = NOW
        self.ends: list[str] = []
        self.created = 0

    @property
    def job(self) -> Job:
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}}
        body = {
            "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
            "spec": {"template": template, **self.spec},
            "status": self.status,
        }
        return msgspec.convert(body, Job)

    def seen(self) -> list[Pod]:
        return [msgspec.convert(pod, Pod) for pod in self.pods.values()]

    def done(self) -> bool:
        return bool(batch_job_decision.end_of(self.job))

    def step(self, writes: int = 100) -> bool:
        """One look at the job, cut short after so many writes; whether anything was written."""
        if self.done():
            return False
        plan = batch_job_decision.decide(self.job, self.seen(), self.now)
        if plan.status != self.status:
            self.status = plan.status
            return True
        left = writes
        for pod in (*plan.counted, *plan.drop):
            if left and ledger.tracked(pod):
                self.pods[pod.metadata.uid]["metadata"]["finalizers"] = []
                left -= 1
        for pod in (*plan.drop, *plan.stop):
            if left:
                self.delete(pod.metadata.uid)
                left -= 1
        for index in plan.create[:left]:
            self.create(index, None if index is None else plan.replaced.get(index))
            left -= 1
        self.sweep()
        return left != writes

    def create(self, index: int | None, replaced: Pod | None = None) -> None:
        body = manifests.build_pod(self.job, index, replaced)
        self.created += 1
        uid = f"uid-{self.created}"
        body["metadata"] |= {"uid": uid, "creationTimestamp": timestamp(self.now)}
        self.pods[uid] = {**body, "status": {"phase": "Running"}}

    def end(self, uid: str, phase: str) -> None:
        pod = self.pods[uid]
        if pod["status"]["phase"] != "Running" or "deletionTimestamp" in pod["metadata"]:
            return
        at = {"terminated": {"exitCode": int(phase == "Failed"), "finishedAt": timestamp(self.now)}}
        pod["status"] = {"phase": phase, "containerStatuses": [{"name": "c", "state": at}]}
        self.ends.append(phase)

    def switch_off(self, uid: str) -> None:
        """The status that a node writes which is stopped together with its pods."""
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
        }
        ended = {"phase": "Failed", "reason": "Terminated", "conditions": [disruption]}
        self.pods[uid]["status"] |= ended

    def delete(self, uid: str) -> None:
        """Delete a pod as a user does; it vanishes when it has no finalizer."""
        if uid in self.pods:
            self.pods[uid]["metadata"].setdefault("deletionTimestamp", timestamp(self.now))
            self.sweep()

    def sweep(self) -> None:
        self.pods = {
            uid: pod
            for uid, pod in self.pods.items()
            if pod["metadata"].get("finalizers") or "deletionTimestamp" not in pod["metadata"]
        }

    def settle(self) -> None:
        for _ in range(300):
            if not self.step():
                return
        raise AssertionError("it never rests")

    @property
    def running(self) -> list[str]:
        return [
            uid
            for uid, pod in self.pods.items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def reason(self) -> str:
        rows = self.status["conditions"]
        row = conditions.find(rows, "Complete") or conditions.find(rows, "Failed")
        assert row is not None
        return str(row["reason"])


@settings(max_examples=150)
@given(
    completions=st.integers(1, 6),
    parallelism=st.integers(1, 4),
    indexed=st.booleans(),
    moves=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=50),
)
def test_every_success_is_counted_once_whatever_happens(
    completions: int, parallelism: int, indexed: bool, moves: list[tuple[int, int]]
) -> None:
    mode = "Indexed" if indexed else "NonIndexed"
    world = World(
        completions=completions, parallelism=parallelism, completionMode=mode, backoffLimit=1000
    )
    for what, number in moves:
        uids = list(world.pods)
        if what == 0 or not uids:
            world.step(writes=number % 3)
        elif what == 1:
            world.end(uids[number % len(uids)], "Succeeded")
        elif what == 2:
            world.end(uids[number % len(uids)], "Failed")
        else:
            world.delete(uids[number % len(uids)])
        world.now += timedelta(seconds=number)
        assert len(world.running) <= parallelism

    for _ in range(100):
        world.settle()
        if world.done():
            break
        for uid in world.running:
            world.end(uid, "Succeeded")
        world.now += timedelta(hours=1)

    assert world.reason() == "CompletionsReached"
    assert world.status["succeeded"] == completions
    assert world.ends.count("Succeeded") >= completions
    assert world.status["uncountedTerminatedPods"] == {}
    assert not any(pod["metadata"].get("finalizers") for pod in world.pods.values())


@settings(max_examples=60)
@given(limit=st.integers(0, 4), cut=st.integers(0, 3))
def test_a_job_fails_after_one_failure_more_than_its_limit(limit: int, cut: int) -> None:
    world = World(completions=1, backoffLimit=limit)
    for _ in range(200):
        world.step(writes=cut)
        world.step()
        if world.done():
            break
        for uid in world.running:
            world.end(uid, "Failed")
        world.now += timedelta(hours=1)

    assert world.reason() == "BackoffLimitExceeded"
    assert (world.status["failed"], world.created) == (limit + 1, limit + 1)


@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize("cut", range(4))
def test_a_pod_stopped_with_its_node_is_replaced_and_not_counted(
    mode: str, terminating: bool, cut: int
) -> None:
    rule = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}
    world = World(
        completions=2,
        parallelism=2,
        backoffLimit=0,
        completionMode=mode,
        podFailurePolicy={"rules": [rule]},
    )
    world.settle()
    before = world.running
    for uid in before:
        world.switch_off(uid)
        if terminating:
            world.delete(uid)
    world.step(writes=cut)
    world.settle()

    assert len(world.running) == len(world.pods) == 2, "at once, and nothing is left of the others"
    assert not set(before) & set(world.pods)
    for uid in world.running:
        world.end(uid, "Succeeded")
    world.settle()
    assert world.reason() == "CompletionsReached"
    assert "failed" not in world.status


def test_the_delay_before_a_new_pod_doubles_with_each_failure() -> None:
    world = World(completions=1, backoffLimit=5)
    waits = []
    for _ in range(3):
        world.settle()
        world.end(world.running[0], "Failed")
        world.settle()
        again = batch_job_decision.decide(world.job, world.seen(), world.now).again
        assert again is not None
        waits.append(again)
        world.now += timedelta(seconds=again)

    assert waits == [10, 20, 40]


def test_a_clock_that_was_set_back_does_not_delay_a_new_pod() -> None:
    world = World(completions=1, backoffLimit=5)
    world.settle()
    world.end(world.running[0], "Failed")
    world.now -= timedelta(hours=1)
    world.settle()

    assert len(world.running) == 1


def test_a_job_that_runs_too_long_fails_when_its_last_pod_has_gone() -> None:
    world = World(completions=2, parallelism=2, activeDeadlineSeconds=30)
    world.settle()
    assert batch_job_decision.decide(world.job, world.seen(), world.now).again == 30

    world.now += timedelta(seconds=30)
    world.step()

    assert conditions.is_true(world.status["conditions"], "FailureTarget")
    assert not world.done()
    world.settle()
    assert world.reason() == "DeadlineExceeded"
    assert (world.status["failed"], world.pods) == (2, {})


def test_a_suspended_job_has_no_pods_and_none_of_them_counts() -> None:
    world = World(completions=2, parallelism=2)
    world.settle()
    world.spec["suspend"] = True
    world.settle()

    assert (world.pods, world.status.get("failed"), "startTime" in world.status) == (
        {},
        None,
        False,
    )
    world.spec["suspend"] = False
    world.settle()
    assert len(world.running) == 2


def test_a_rule_of_the_failure_policy_fails_the_job_or_ignores_the_pod() -> None:
    codes = {"onExitCodes": {"operator": "In", "values": [1]}}
    strict = World(podFailurePolicy={"rules": [{"action": "FailJob", **codes}]}, completions=1)
    mild = World(
        podFailurePolicy={"rules": [{"action": "Ignore", **codes}]}, completions=1, backoffLimit=0
    )
    for world in (strict, mild):
        world.settle()
        world.end(world.running[0], "Failed")
        world.now += timedelta(hours=1)
        world.settle()

    assert strict.reason() == "PodFailurePolicy"
    assert not mild.done()
    assert (mild.created, mild.status.get("failed")) == (2, None)


def test_a_pods_index_is_in_its_name_host_name_and_environment() -> None:
    world = World(completions=3, completionMode="Indexed", parallelism=3)
    world.settle()

    pods = sorted(world.pods.values(), key=lambda pod: pod["metadata"]["name"])
    assert [pod["spec"]["hostname"] for pod in pods] == ["j-0", "j-1", "j-2"]
    assert pods[1]["metadata"]["annotations"][batch_job_pods.INDEX] == "1"
    assert pods[1]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


@given(st.sets(st.integers(0, 40)))
def test_indexes_are_read_as_they_are_written(given: set[int]) -> None:
    assert batch_job_pods.parse_indexes(batch_job_pods.format_indexes(given), 41) == given


@pytest.mark.parametrize(
    ("given", "text"), [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2, 5, 7, 8, 9], "0-2,5,7-9")]
)
def test_consecutive_indexes_are_written_as_ranges(given: list[int], text: str) -> None:
    assert batch_job_pods.format_indexes(given) == text


def test_an_endless_deadline_is_never_reached() -> None:
    world = World(completions=1, activeDeadlineSeconds=10**18)
    world.settle()

    assert batch_job_decision.deadline(world.job) == NOW + timedelta(seconds=MAX_SECONDS)


def test_a_job_expires_after_its_time_to_live() -> None:
    world = World(completions=1, ttlSecondsAfterFinished=60)
    assert batch_job_decision.expires(world.job) is None
    world.settle()
    world.end(world.running[0], "Succeeded")
    world.settle()

    assert batch_job_decision.expires(world.job) == NOW + timedelta(seconds=60)
    assert batch_job_decision.deadline(world.job) is None


def test_failures_of_an_index_are_counted_although_the_failed_pods_are_deleted() -> None:
    world = World(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=2)
    world.settle()
    world.end("uid-2", "Succeeded")
    for number in (1, 3, 4):
        failed = f"uid-{number}"
        world.end(failed, "Failed")
        world.delete(failed)
        world.settle()
        assert world.created == max(2, number), "the index has a backoff"
        world.now += timedelta(minutes=10)
        world.settle()

    assert world.reason() == "FailedIndexes"
    assert (world.status["failedIndexes"], world.status["completedIndexes"]) == ("0", "1")
    assert world.status["failed"] == 3
    assert world.created == 4


def test_an_index_that_failed_with_its_node_gets_a_new_pod_at_once() -> None:
    world = World(completions=1, parallelism=1, completionMode="Indexed", backoffLimitPerIndex=0)
    world.settle()
    world.switch_off("uid-1")
    world.settle()

    assert world.running == ["uid-2"]
    assert "failedIndexes" not in world.status
