"""Whatever a stranger writes into an object: no controller ends, other objects make progress."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kubekit.client.client import Client
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key
from localkube import cron_schedule
from localkube.controllers import (
    batch_job_decision,
    batch_job_decision as job_decisions,
    batch_job_pods,
    controller_manager,
    controller_revisions,
    cron_job_controller as cron_decisions,
    daemon_set_decision,
    daemon_set_decision as daemon_decisions,
    deployment_revisions,
    deployment_rollout,
    disruption_budget_controller as budgets,
    replica_set_controller,
    stateful_set_decision as stateful_decisions,
)
from localkube.controllers.node_lifecycle import evict_at
from localkube.controllers.node_taints import taints
from localkube.controllers.workloads import (
    BURST,
    DELETION_COST,
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    DisruptionBudget,
    Job,
    Node,
    Pod,
    ReplicaSet,
    StatefulSet,
    available_in,
    deletion_order,
)
from tests import unexpected_errors
from tests.hostile_values import LARGE, TIMES, amounts, counts, some_of, texts, times
from tests.waiting import eventually

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Raw = dict[str, Any]


def conditions(*types: str) -> st.SearchStrategy[list[Raw]]:
    row = st.fixed_dictionaries(
        {"type": st.sampled_from(types), "status": st.sampled_from(("True", "False", "Unknown"))},
        optional={
            "lastTransitionTime": times,
            "lastUpdateTime": times,
            "reason": st.sampled_from(("", "ReplicaSetUpdated", "DeploymentPaused", "²")),
        },
    )
    return st.lists(row, max_size=2)


def metadata(name: str, *annotations: str) -> st.SearchStrategy[Raw]:
    return st.fixed_dictionaries(
        {
            "name": st.just(name),
            "namespace": st.just("ns"),
            "uid": st.just(f"uid-{name}"),
            "labels": some_of("app", "controller-revision-hash", "pod-template-generation"),
            "annotations": some_of("any", *annotations),
            "creationTimestamp": times,
        }
    )


def pods(name: str = "p", *annotations: str) -> st.SearchStrategy[Pod]:
    body = st.fixed_dictionaries(
        {
            "metadata": metadata(name, DELETION_COST, *annotations),
            "spec": st.fixed_dictionaries(
                {
                    "nodeName": st.sampled_from(("", "n")),
                    "tolerations": st.lists(
                        st.fixed_dictionaries(
                            {
                                "operator": st.just("Exists"),
                                "tolerationSeconds": st.one_of(st.none(), counts),
                            }
                        ),
                        max_size=3,
                    ),
                }
            ),
            "status": st.fixed_dictionaries(
                {
                    "phase": st.sampled_from(("", "Pending", "Running", "Succeeded", "Failed")),
                    "conditions": conditions("Ready", "DisruptionTarget"),
                    "containerStatuses": st.lists(
                        st.fixed_dictionaries(
                            {
                                "name": st.just("c"),
                                "restartCount": counts,
                                "state": st.fixed_dictionaries(
                                    {
                                        "terminated": st.fixed_dictionaries(
                                            {"exitCode": counts, "finishedAt": times}
                                        )
                                    }
                                ),
                            }
                        ),
                        max_size=1,
                    ),
                }
            ),
        }
    )
    return body.map(lambda raw: msgspec.convert(raw, Pod))


def template() -> Raw:
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]},
    }


statuses = some_of(
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "collisionCount",
    "observedGeneration",
    values=counts,
)

_SIZES = (
    deployment_revisions.REVISION,
    deployment_revisions.HISTORY,
    deployment_revisions.DESIRED,
    deployment_revisions.MAXIMUM,
)
deployments = st.fixed_dictionaries(
    {
        "metadata": metadata("d", *_SIZES),
        "spec": st.fixed_dictionaries(
            {
                "replicas": counts,
                "minReadySeconds": counts,
                "progressDeadlineSeconds": counts,
                "revisionHistoryLimit": counts,
                "paused": st.booleans(),
                "selector": st.just({"matchLabels": {"app": "x"}}),
                "template": st.builds(template),
                "strategy": st.fixed_dictionaries(
                    {
                        "type": st.sampled_from(("RollingUpdate", "Recreate")),
                        "rollingUpdate": st.fixed_dictionaries(
                            {"maxSurge": amounts, "maxUnavailable": amounts}
                        ),
                    }
                ),
            }
        ),
        "status": st.builds(
            lambda counts, rows: {**counts, "conditions": rows},
            statuses,
            conditions("Progressing", "Available"),
        ),
    }
).map(lambda raw: msgspec.convert(raw, Deployment))


def sets_named(name: str) -> st.SearchStrategy[ReplicaSet]:
    return st.fixed_dictionaries(
        {
            "metadata": metadata(name, *_SIZES),
            "spec": st.fixed_dictionaries(
                {"replicas": counts, "minReadySeconds": counts, "template": st.builds(template)}
            ),
            "status": statuses,
        }
    ).map(lambda raw: msgspec.convert(raw, ReplicaSet))


@given(deployments, sets_named("a"), sets_named("b"), st.lists(pods(), max_size=2))
def test_a_deployment_is_decided_about_whatever_its_sets_say(
    deployment: Deployment, new: ReplicaSet, old: ReplicaSet, owned: list[Pod]
) -> None:
    deployment_rollout.decide(deployment, [new, old])
    status = deployment_rollout.status(deployment, new, [old], NOW)
    deployment_rollout.deadline_in(deployment, status, NOW)
    replica_set_controller.decide(new, owned, owned)
    replica_set_controller.status(new, owned, "", NOW)
    available_in(owned, new.spec.min_ready_seconds, NOW)
    assert deletion_order(owned, owned)[::-1] != [None]


@pytest.mark.parametrize("revision", ["²", LARGE, "-3", "2147483647", "\0"])
def test_the_next_revision_can_be_read_whatever_the_last_one_was(revision: str) -> None:
    meta = {
        "name": "a",
        "annotations": {
            deployment_revisions.REVISION: revision,
            deployment_revisions.HISTORY: LARGE,
        },
    }
    old = msgspec.convert({"metadata": meta}, ReplicaSet)
    deployment = msgspec.convert({"metadata": {"name": "d"}}, Deployment)

    number = deployment_revisions.next_number([old])
    annotations = deployment_revisions.set_annotations(deployment, old, number + 1)

    written = msgspec.convert({"metadata": {"name": "a", "annotations": annotations}}, ReplicaSet)
    assert deployment_revisions.number(written.metadata) >= number > 0 or revision == "2147483647"
    assert len(annotations.get(deployment_revisions.HISTORY, "")) <= max(len(LARGE), 2000)


@given(st.dictionaries(st.integers(0, 4), pods()), counts, counts, st.booleans())
def test_a_stateful_set_is_decided_about_whatever_its_size(
    owned: dict[int, Pod], replicas: int, start: int, ordered: bool
) -> None:
    spec = {
        "replicas": replicas,
        "ordinals": {"start": start},
        "minReadySeconds": replicas,
        "podManagementPolicy": "OrderedReady" if ordered else "Parallel",
    }
    stateful_set = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, StatefulSet)
    state = stateful_decisions.Progress(stateful_set, owned, "a", "b", NOW)

    plan = stateful_decisions.decide(state)

    assert len(plan.create) <= BURST
    assert all(start <= number < start + replicas for number, _ in plan.create)
    stateful_decisions.stateful_set_status(state)


@given(
    st.lists(pods("p", batch_job_pods.INDEX, batch_job_pods.FAILURES, batch_job_pods.IGNORED)),
    st.fixed_dictionaries(
        {
            "metadata": metadata("j"),
            "spec": st.fixed_dictionaries(
                {
                    "completions": st.one_of(st.none(), counts),
                    "parallelism": counts,
                    "backoffLimit": counts,
                    "backoffLimitPerIndex": st.one_of(st.none(), counts),
                    "activeDeadlineSeconds": st.one_of(st.none(), counts),
                    "ttlSecondsAfterFinished": st.one_of(st.none(), counts),
                    "completionMode": st.sampled_from(("Indexed", "NonIndexed")),
                    "template": st.builds(template),
                    "successPolicy": st.fixed_dictionaries(
                        {
                            "rules": st.lists(
                                st.fixed_dictionaries({"succeededIndexes": texts}), max_size=1
                            )
                        }
                    ),
                }
            ),
            "status": st.fixed_dictionaries(
                {"conditions": conditions("Complete", "Failed", "FailureTarget")},
                optional={
                    "startTime": times,
                    "succeeded": counts,
                    "failed": counts,
                    "completedIndexes": st.sampled_from(("", "0-3,5", LARGE, "²-٣", "3-1")),
                    "failedIndexes": st.sampled_from(("", "0-3,5", LARGE, "²-٣", "3-1")),
                },
            ),
        }
    ),
)
def test_a_job_is_decided_about_whatever_its_pods_say(owned: list[Pod], raw: Raw) -> None:
    job = msgspec.convert(raw, Job)

    job_decisions.decide(job, owned, NOW)
    job_decisions.expires(job)


def ranges_of(numbers: list[tuple[int, int]]) -> str:
    return ",".join(f"{first}-{last}" for first, last in numbers)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5),
    st.integers(0, 20),
    st.sets(st.integers(0, 19)),
)
def test_ranges_are_the_indexes_that_they_name(
    numbers: list[tuple[int, int]], below: int, completed: set[int]
) -> None:
    named = {i for first, last in numbers for i in range(first, last + 1) if i < below}
    text = ranges_of(numbers)

    ranges = batch_job_pods.parse_ranges(text, below)

    assert [i for part in ranges for i in part] == sorted(named)
    assert batch_job_pods.parse_indexes(text, below) == named
    rules = {"rules": [{"succeededIndexes": text}]}
    spec = {"completions": below, "successPolicy": rules}
    met = batch_job_decision.met_success_rule(
        msgspec.convert({"spec": spec}, Job), frozenset(completed)
    )
    assert (met == 0) == (bool(completed) and named <= completed)


def test_a_success_policy_of_two_billion_indexes_costs_nothing() -> None:
    rules = {"rules": [{"succeededIndexes": "0-2147483646"}]}
    spec = {"completions": 2**31 - 1, "completionMode": "Indexed", "successPolicy": rules}

    job = msgspec.convert({"spec": spec}, Job)

    assert batch_job_decision.met_success_rule(job, frozenset({0})) is None


@given(
    st.one_of(st.sampled_from(("* 0 1 1 *", "@every 1s", "@every 2540400h", "*/7 * * * *")), texts),
    texts,
    times,
    times,
    st.one_of(st.none(), counts),
)
def test_a_cron_job_is_decided_about_whatever_its_times(
    schedule: str, zone: str, last: str | None, created: str | None, deadline: int | None
) -> None:
    raw = {
        "metadata": {"name": "c", "creationTimestamp": created},
        "spec": {
            "schedule": schedule,
            "timeZone": zone if "\0" not in zone else "",
            "startingDeadlineSeconds": deadline,
        },
        "status": {"lastScheduleTime": last},
    }
    cron_job = msgspec.convert(raw, CronJob)

    plan = cron_decisions.decide(cron_job, [], NOW)

    if plan.create is not None:
        cron_decisions.new_job(cron_job, plan.create)


class Counted:
    """A schedule that counts how often it is asked."""

    def __init__(self, text: str) -> None:
        self.calls = 0
        self._schedule = cron_schedule.parse(text)

    def next_after(self, time: datetime) -> datetime | None:
        self.calls += 1
        return self._schedule.next_after(time)


@pytest.mark.parametrize("text", ["* * * * *", "* 0 1 1 *", "0,1 0 29 2 *", "@every 90s"])
def test_the_last_time_of_a_schedule_is_found_quickly_after_two_thousand_years(text: str) -> None:
    schedule = Counted(text)
    begin = datetime(1, 1, 2, tzinfo=UTC)

    due, count = cron_decisions.most_recent(schedule, begin, NOW)

    assert due is not None
    assert NOW - timedelta(days=5 * 366) < due <= NOW
    assert count > 100
    assert schedule.calls < 200


@given(st.lists(pods(), max_size=3), st.lists(st.sampled_from(TIMES), max_size=2))
def test_pods_are_evicted_or_not_whatever_they_tolerate(owned: list[Pod], since: list[str]) -> None:
    rows = [{"key": "k", "effect": "NoExecute", "timeAdded": at} for at in [*since, "²", ""]]
    node = msgspec.convert({"metadata": {"name": "n"}, "spec": {"taints": rows}}, Node)

    for pod in owned:
        evict_at(pod, node.spec.taints, NOW)
    taints(node, NOW)


@given(
    st.lists(pods(), max_size=3),
    some_of("minAvailable", "maxUnavailable", values=amounts),
    st.dictionaries(st.just("p"), st.one_of(texts, st.sampled_from(TIMES))),
)
def test_a_budget_is_counted_whatever_its_share(
    owned: list[Pod], spec: Raw, disrupted: dict[str, str]
) -> None:
    raw = {"metadata": {"name": "b"}, "spec": spec, "status": {"disruptedPods": disrupted}}
    budget = msgspec.convert(raw, DisruptionBudget)

    budgets.budget_status(budget, owned, budgets.OwnerSizes(replicas=3), NOW)


@given(
    st.lists(pods(), max_size=3),
    st.fixed_dictionaries({"maxSurge": amounts, "maxUnavailable": amounts}),
    metadata("ds", "deprecated.daemonset.template.generation"),
    counts,
)
def test_a_daemon_set_is_decided_about_whatever_it_says(
    owned: list[Pod], rolling: Raw, meta: Raw, seconds: int
) -> None:
    spec = {
        "minReadySeconds": seconds,
        "template": template(),
        "updateStrategy": {"rollingUpdate": rolling},
    }
    daemon_set = msgspec.convert({"metadata": meta, "spec": spec}, DaemonSet)
    node = msgspec.convert({"metadata": {"name": "n"}}, Node)
    state = daemon_decisions.Progress(daemon_set, [node], owned, "hash", NOW)

    daemon_decisions.mend(state)
    daemon_decisions.daemon_set_status(state)
    daemon_set_decision.roll(state)


@pytest.mark.parametrize("data", [{}, {"spec": [1]}, {"spec": {"template": "²"}}, {"spec": None}])
def test_a_revision_is_compared_whatever_its_data(data: Raw) -> None:
    raw = {"metadata": {"name": "r"}, "revision": 2**63 - 1, "data": data}
    revision = msgspec.convert(raw, ControllerRevision)

    assert controller_revisions.find_revision(template(), [revision]) is None
    assert controller_revisions.next_number([revision]) == 2**63 - 1


# -- all controllers on a real server ------------------------------------------------------------


def kind(api_version: str, name: str) -> Kind[Raw]:
    return Kind.of(api_version, name, dict)


PODS, SERVICES = kind("v1", "Pod"), kind("v1", "Service")
DEPLOYMENTS, REPLICA_SETS = kind("apps/v1", "Deployment"), kind("apps/v1", "ReplicaSet")
JOBS, CRON_JOBS = kind("batch/v1", "Job"), kind("batch/v1", "CronJob")
SETS = kind("apps/v1", "StatefulSet")
SLICES = kind("discovery.k8s.io/v1", "EndpointSlice")


def named(name: str, spec: Raw, **fields: Any) -> Raw:
    return {"metadata": {"name": name, "namespace": "default", **fields}, "spec": spec}


def workload(name: str, **spec: Any) -> Raw:
    labels = {"app": name}
    body = {**template(), "metadata": {"labels": labels}}
    body["spec"] = {"containers": [{"name": "c", "image": "i", "command": ["true"]}]}
    return named(name, {"selector": {"matchLabels": labels}, "template": body, **spec})


def job(name: str, **spec: Any) -> Raw:
    body = {"spec": {**template()["spec"], "restartPolicy": "Never"}}
    return named(name, {"template": body, **spec})


HOSTILE_STATUS = {"conditions": [{"type": "Complete", "status": "True"}], "startTime": TIMES[0]}


async def hostile_objects(client: Client) -> None:
    """Objects that the server accepts, and that a careless reader would stumble over."""
    days = {"minReadySeconds": 2**31 - 2, "progressDeadlineSeconds": 2**31 - 1}
    await client.create(DEPLOYMENTS, workload("slow", replicas=1, **days))
    await client.create(JOBS, job("j", ttlSecondsAfterFinished=2**31 - 1, suspend=True))
    patch = {"status": HOSTILE_STATUS}
    await client.patch(JOBS, Key("default", "j"), patch, subresource="status")
    jobs = {"spec": job("x")["spec"]}
    cron = {"schedule": "* 0 1 1 *", "startingDeadlineSeconds": 2**62, "jobTemplate": jobs}
    await client.create(CRON_JOBS, named("c", cron))
    patch = {"status": {"lastScheduleTime": TIMES[1]}}
    await client.patch(CRON_JOBS, Key("default", "c"), patch, subresource="status")
    texts = {batch_job_pods.INDEX: LARGE, DELETION_COST: "²", deployment_revisions.REVISION: "²"}
    pod = named("p", template()["spec"], labels={"app": "web"}, annotations=texts)
    ages = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**62}
    pod["spec"] = {**pod["spec"], "tolerations": [ages]}
    await client.create(PODS, pod)
    state = {"type": "Ready", "status": "True", "lastTransitionTime": TIMES[0]}
    patch = {"status": {"conditions": [state], "startTime": TIMES[-1]}}
    await client.patch(PODS, Key("default", "p"), patch, subresource="status")
    labels = {"kubernetes.io/service-name": "²".encode().hex()}
    rows = {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3"]}], "ports": [{"port": 0}]}
    await client.create(SLICES, {**named("s", {}, labels=labels), **rows})


@pytest.mark.slow
async def test_healthy_objects_make_progress_beside_hostile_ones(api_client: Client) -> None:
    before = unexpected_errors.counted()
    manager = controller_manager.build(api_client, controller_manager.Settings())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        await hostile_objects(api_client)
        await _healthy_objects_progress(api_client)
        assert not running.done()
        manager.stop()

    assert unexpected_errors.counted() == before


async def _healthy_objects_progress(api_client: Client) -> None:
    await api_client.create(DEPLOYMENTS, workload("web", replicas=2))
    await api_client.create(SETS, workload("db", replicas=1, serviceName="db"))
    await api_client.create(JOBS, job("train"))
    await api_client.create(SERVICES, named("db", {"selector": {"app": "db"}, "clusterIP": "None"}))

    async def owners() -> set[str]:
        listed = (await api_client.list(PODS, "default")).items
        references = [pod["metadata"].get("ownerReferences") or [{}] for pod in listed]
        return {row[0].get("kind", "") for row in references}

    async def everything_started() -> bool:
        return {"ReplicaSet", "StatefulSet", "Job"} <= await owners()

    await eventually(everything_started, what="pods of all healthy objects")
    await eventually(lambda: _revised(api_client, "²"), what="the first revision")
    await eventually(lambda: _rolled(api_client), what="the rollout past a hostile revision")
    await eventually(lambda: _has_slice(api_client), what="the slice of the healthy service")


async def _revised(client: Client, text: str) -> bool:
    """Write a hostile revision into all sets of the healthy deployment, and a new template."""
    sets = [
        item
        for item in (await client.list(REPLICA_SETS, "default")).items
        if item["metadata"]["name"].startswith("web-")
    ]
    sizes = {
        deployment_revisions.REVISION: text,
        deployment_revisions.DESIRED: LARGE,
        deployment_revisions.MAXIMUM: text,
    }
    for item in sets:
        key = Key("default", item["metadata"]["name"])
        await client.patch(REPLICA_SETS, key, {"metadata": {"annotations": sizes}})
    if sets:
        labels = {"spec": {"template": {"metadata": {"labels": {"colour": "red"}}}}}
        await client.patch(DEPLOYMENTS, Key("default", "web"), labels)
    return bool(sets)


async def _rolled(client: Client) -> bool:
    sets = (await client.list(REPLICA_SETS, "default")).items
    red = [s for s in sets if s["metadata"]["labels"].get("colour") == "red"]
    return any(
        s["metadata"]["annotations"].get(deployment_revisions.REVISION, "").isdecimal() for s in red
    )


async def _has_slice(client: Client) -> bool:
    slices = (await client.list(SLICES, "default")).items
    return any(s["metadata"]["name"].startswith("db-") for s in slices)
