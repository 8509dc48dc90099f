"""The group object and the marks of each dialect, and the choice of the dialect."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.kinds import POD_DISRUPTION_BUDGETS
from kubekit.objects.meta import Raw
from muster.contract.gang_dialects import GROUP_NAME_ANNOTATION
from muster.contract.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    NATIVE_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)
from muster.operator.build.gang import GROUP_ANNOTATIONS
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import ALL_DIALECTS, Model, manifest, replica

SELECTOR = {
    "training.kubeflow.org/operator-name": "tfjob-controller",
    "training.kubeflow.org/job-name": "j",
}


def settled(raw: Raw, settings: Settings | None = None, **observed: Any) -> Model:
    model = Model(raw, settings, **observed)
    model.settle()
    return model


def scheduled_by(name: str) -> Raw:
    return manifest(roles={"Worker": replica(2, schedulerName=name)})


@pytest.mark.parametrize(
    ("scheduler", "missing", "resource"),
    [
        ("", set(), VOLCANO_POD_GROUPS.resource),
        ("muster", set(), VOLCANO_POD_GROUPS.resource),
        ("volcano", set(), VOLCANO_POD_GROUPS.resource),
        ("kube-batchd", set(), POD_DISRUPTION_BUDGETS.resource),
        ("kube-batch", set(), KUBE_BATCH_POD_GROUPS.resource),
        ("kube-batch", {KUBE_BATCH_POD_GROUPS.resource}, POD_DISRUPTION_BUDGETS.resource),
        ("scheduler-plugins-scheduler", set(), COSCHEDULING_POD_GROUPS.resource),
        ("koord-scheduler", set(), None),  # it reads labels
        ("muster", {VOLCANO_POD_GROUPS.resource}, None),
    ],
)
def test_the_dialect_follows_the_scheduler_and_what_is_installed(
    scheduler: str, missing: set[str], resource: str | None
) -> None:
    model = settled(scheduled_by(scheduler), served_dialects=ALL_DIALECTS - missing)

    assert [name for name, _ in model.objects] == ([resource] if resource else [])


@pytest.mark.parametrize(
    ("scheduler", "warned"),
    [
        ("volcano", False),
        ("scheduler-plugins-scheduler", False),
        ("koord-scheduler", False),
        ("default-scheduler", True),
        ("yunikorn", True),  # it knows gangs, but reads no dialect that the operator writes
    ],
)
def test_a_scheduler_that_does_not_read_the_gang_is_warned_of(scheduler: str, warned: bool) -> None:
    model = settled(scheduled_by(scheduler))

    reasons = [event.reason for event in model.events]
    assert ("SetPodTemplateSchedulerName" in reasons) == warned


def test_without_its_crd_the_gang_is_declared_by_labels() -> None:
    model = settled(manifest(), served_dialects=frozenset())

    labels = model.manifests["j-worker-1"]["metadata"]["labels"]
    assert labels["pod-group.scheduling.sigs.k8s.io/name"] == "j"
    assert labels["pod-group.scheduling.sigs.k8s.io/min-available"] == "3"
    assert model.manifests["j-worker-1"]["spec"]["schedulerName"] == "muster"


def test_the_model_directory_of_a_job_reaches_its_pods_unless_they_have_their_own() -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/model-dir": "/models"}
    own = manifest()
    own["metadata"]["annotations"] = {"muster.dev/model-dir": "/models"}
    template = own["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": {"muster.dev/model-dir": "/others"}}

    for job, directory in ((raw, "/models"), (own, "/others")):
        annotations = settled(job).manifests["j-worker-1"]["metadata"]["annotations"]
        assert annotations["muster.dev/model-dir"] == directory


def test_the_topology_of_a_job_reaches_its_group_or_its_pods() -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/topology": "rack", "note": "x"}
    group = settled(raw).objects[VOLCANO_POD_GROUPS.resource, "j"]
    by_labels = settled(raw, served_dialects=frozenset())

    assert group["metadata"]["annotations"]["muster.dev/topology"] == "rack"
    annotations = by_labels.manifests["j-worker-1"]["metadata"]["annotations"]
    assert annotations["muster.dev/topology"] == "rack"
    assert "note" not in annotations


def test_a_topology_makes_a_gang_unless_the_job_forbids_it() -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/topology": "rack"}
    by_default = settled(raw, Settings(gang=False))
    raw["metadata"]["annotations"]["muster.dev/gang"] = "false"
    forbidden = settled(raw)

    assert (VOLCANO_POD_GROUPS.resource, "j") in by_default.objects
    assert "TopologyWithoutGang" not in [event.reason for event in by_default.events]
    assert (VOLCANO_POD_GROUPS.resource, "j") not in forbidden.objects
    assert "TopologyWithoutGang" in [event.reason for event in forbidden.events]


@pytest.mark.parametrize(
    ("dialect", "resource", "spec"),
    [
        (
            "volcano",
            VOLCANO_POD_GROUPS.resource,
            {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}},
        ),
        ("kube-batch", KUBE_BATCH_POD_GROUPS.resource, {"minMember": 3}),
        (
            "pdb",
            POD_DISRUPTION_BUDGETS.resource,
            {"minAvailable": 3, "selector": {"matchLabels": SELECTOR}},
        ),
        ("coscheduling", COSCHEDULING_POD_GROUPS.resource, {"minMember": 3}),
        ("native", NATIVE_POD_GROUPS.resource, {"schedulingPolicy": {"gang": {"minCount": 3}}}),
    ],
)
def test_each_dialect_has_its_object(dialect: str, resource: str, spec: Raw) -> None:
    model = settled(manifest(), Settings(dialect=dialect))

    assert model.objects[(resource, "j")]["spec"] == spec
    assert model.objects[(resource, "j")]["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


@pytest.mark.parametrize(
    ("dialect", "labels", "annotations", "group"),
    [
        (
            "volcano",
            {},
            {"scheduling.k8s.io/group-name": "j", "volcano.sh/task-spec": "worker"},
            None,
        ),
        ("coscheduling", {"scheduling.x-k8s.io/pod-group": "j"}, {}, None),
        ("native", {}, {}, {"podGroupName": "j"}),
        ("pdb", {}, {}, None),
        ("none", {}, {}, None),
    ],
)
def test_each_dialect_marks_the_pods(
    dialect: str, labels: Raw, annotations: Raw, group: Raw | None
) -> None:
    pod = settled(manifest(), Settings(dialect=dialect)).manifests["j-worker-1"]

    own = {k: v for k, v in pod["metadata"]["labels"].items() if "training.kubeflow" not in k}
    assert own == labels
    size = {"muster.dev/cluster-size": "ps=1,worker=2"}
    assert pod["metadata"]["annotations"] == annotations | size
    assert pod["spec"].get("schedulingGroup") == group


def test_gang_scheduling_can_be_off_by_default_and_on_for_one_job() -> None:
    off = Settings(gang=False)
    model = settled(manifest(), off)
    assert model.objects == {}
    assert "schedulerName" not in model.manifests["j-ps-0"]["spec"]

    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/gang": "true"}
    assert settled(raw, off).objects

    raw["metadata"]["annotations"] = {"muster.dev/gang": "false"}
    assert not settled(raw).objects


@pytest.mark.parametrize(
    ("settings", "scheduler"),
    [
        (Settings(pod_scheduler="muster"), "muster"),  # beside Muster's scheduler
        (Settings(pod_scheduler="muster", gang=False), "muster"),  # where no job is a gang
        (Settings(), None),  # beside the cluster's own scheduler alone
    ],
)
def test_pods_outside_of_a_gang_stand_in_the_same_line(
    settings: Settings, scheduler: str | None
) -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/gang": "false"}
    model = settled(raw, settings)

    assert model.objects == {}
    chosen = {pod["spec"].get("schedulerName") for pod in model.manifests.values()}
    assert chosen == {scheduler}


@pytest.mark.parametrize(
    ("settings", "gang"),
    [
        (Settings(pod_scheduler="muster"), True),
        (Settings(), False),
        (Settings(pod_scheduler="muster", gang=False), False),
    ],
)
def test_a_job_that_leaves_it_open_is_a_gang_where_our_scheduler_runs(
    settings: Settings, gang: bool
) -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/gang": "auto"}

    assert bool(settled(raw, settings).objects) == gang


def test_a_scheduler_that_the_manifest_names_stays() -> None:
    raw = scheduled_by("default-scheduler")
    raw["metadata"]["annotations"] = {"muster.dev/gang": "false"}
    model = settled(raw, Settings(pod_scheduler="muster"))

    assert model.manifests["j-worker-0"]["spec"]["schedulerName"] == "default-scheduler"


def test_a_pod_with_claims_of_devices_is_left_to_the_clusters_scheduler() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    roles = {"Worker": replica(1, resourceClaims=claims), "PS": replica(1)}
    raw = manifest(roles=roles)
    raw["metadata"]["annotations"] = {"muster.dev/gang": "false"}
    model = settled(raw, Settings(pod_scheduler="muster"))

    assert "schedulerName" not in model.manifests["j-worker-0"]["spec"]
    assert model.manifests["j-ps-0"]["spec"]["schedulerName"] == "muster"


def test_a_job_may_choose_its_dialect() -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"muster.dev/gang-dialect": "pdb"}

    assert list(settled(raw).objects) == [(POD_DISRUPTION_BUDGETS.resource, "j")]


def test_a_gang_that_the_templates_declare_is_left_as_it_is() -> None:
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "tfjob-x",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    worker = replica(2)
    worker["template"]["metadata"] = {"labels": labels}
    model = settled(manifest(roles={"Worker": worker}))

    pod = model.manifests["j-worker-0"]
    assert model.objects == {}
    assert pod["metadata"]["labels"].items() >= labels.items()
    assert pod["metadata"]["annotations"] == {"muster.dev/cluster-size": "worker=2"}
    assert pod["spec"]["schedulerName"] == "muster"


@pytest.mark.parametrize(
    ("installed", "groups"),
    [(ALL_DIALECTS, [(VOLCANO_POD_GROUPS.resource, "j")]), (frozenset(), [])],
)
def test_arenas_labels_do_not_keep_a_job_from_the_clusters_dialect(
    installed: frozenset[str], groups: list[tuple[str, str]]
) -> None:
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "tfjob-j",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    worker = replica(2)
    worker["template"]["metadata"] = {"labels": labels}
    raw = manifest(roles={"Worker": worker})
    raw["metadata"]["annotations"] = {"muster.dev/gang": "true"}
    model = settled(raw, served_dialects=installed)

    assert list(model.objects) == groups
    pod = model.manifests["j-worker-0"]
    assert pod["metadata"]["labels"].items() >= labels.items()
    assert ("scheduling.k8s.io/group-name" in pod["metadata"]["annotations"]) == bool(groups)
    assert pod["spec"]["schedulerName"] == "muster"


def test_the_policy_of_the_job_shapes_its_group() -> None:
    policy = {
        "minAvailable": 2,
        "queue": "q",
        "priorityClass": "high",
        "minResources": {"cpu": "3"},
        "scheduleTimeoutSeconds": 7,
    }
    raw = manifest(runPolicy={"schedulingPolicy": policy})

    volcano = settled(raw).objects[(VOLCANO_POD_GROUPS.resource, "j")]["spec"]
    assert volcano == {
        "minMember": 2,
        "queue": "q",
        "priorityClassName": "high",
        "minResources": {"cpu": "3"},
    }
    other = settled(raw, Settings(dialect="coscheduling"))
    assert other.objects[(COSCHEDULING_POD_GROUPS.resource, "j")]["spec"] == {
        "minMember": 2,
        "minResources": {"cpu": "3"},
        "scheduleTimeoutSeconds": 7,
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (Settings(dialect="volcano"), ["queue (q)", "scheduleTimeoutSeconds (7)"]),
        # Volcano serves the queue, scheduler-plugins the timeout.
        (Settings(dialect="volcano", scheduler="volcano"), ["scheduleTimeoutSeconds (7)"]),
        (
            Settings(dialect="coscheduling", scheduler="scheduler-plugins"),
            ["queue (q)"],
        ),
        (
            Settings(dialect="pdb"),
            ["queue (q)", "scheduleTimeoutSeconds (7)", "minResources ({'cpu': '3'})"],
        ),
    ],
)
def test_a_field_of_the_policy_that_nobody_serves_has_an_event(
    settings: Settings, told: list[str]
) -> None:
    policy = {"queue": "q", "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": 7}
    raw = manifest(runPolicy={"schedulingPolicy": policy})

    events = [row.message for row in settled(raw, settings).events if row.reason == "NotServed"]

    assert [text.partition(" has no effect")[0] for text in events] == [
        f"schedulingPolicy.{field}" for field in told
    ]


def test_the_default_queue_and_an_empty_policy_have_no_event() -> None:
    raw = manifest(runPolicy={"schedulingPolicy": {"queue": "default", "minAvailable": 2}})

    assert "NotServed" not in [row.reason for row in settled(raw).events]


@pytest.mark.parametrize("dialect", ["volcano", "kube-batch", "pdb", "coscheduling", "native"])
@pytest.mark.parametrize("kind", ["TFJob", "MPIJob"])
def test_a_group_gets_only_annotations_that_are_meant_for_users(dialect: str, kind: str) -> None:
    mpi = {"Launcher": replica(1, name="mpi"), "Worker": replica(2, name="mpi")}
    raw = manifest(kind, roles=mpi if kind == "MPIJob" else None)
    meant = dict.fromkeys(GROUP_ANNOTATIONS, "5")
    forged = '{"launcher": {"cpu": "999"}}'
    raw["metadata"]["annotations"] = meant | {
        "muster.dev/late": forged,
        "muster.dev/plan": "x/1/1",
        "muster.dev/takedown": "Preempted/2026-01-01T00:00:00Z",
        "muster.dev/some-later-annotation": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "note": "x",
    }
    (group,) = [
        found
        for (resource, _), found in settled(raw, Settings(dialect=dialect)).objects.items()
        if resource in ALL_DIALECTS
    ]

    annotations = group["metadata"]["annotations"]
    late = annotations.pop("muster.dev/late", "")
    assert annotations == meant
    assert late == ('{"launcher": {}}' if kind == "MPIJob" and dialect != "coscheduling" else "")


def test_the_annotations_of_a_group_are_these() -> None:
    ours = {name for name in GROUP_ANNOTATIONS if name.startswith("muster.dev/")}

    assert ours == {
        "muster.dev/hold",
        "muster.dev/on-hold-end",
        "muster.dev/placement",
        "muster.dev/restart",
        "muster.dev/topology",
        "muster.dev/topology-preferred",
    }


def test_late_members_that_somebody_else_wrote_on_the_group_are_removed() -> None:
    model = settled(manifest())
    group = model.objects[VOLCANO_POD_GROUPS.resource, "j"]
    group["metadata"].setdefault("annotations", {})["muster.dev/late"] = '{"x": {"cpu": "99"}}'
    model.settle()

    group = model.objects[VOLCANO_POD_GROUPS.resource, "j"]
    assert "muster.dev/late" not in (group["metadata"].get("annotations") or {})


@pytest.mark.parametrize("dialect", ["volcano", "kube-batch", "pdb", "coscheduling", "native"])
def test_the_class_of_the_gang_is_the_class_of_pods_that_name_none(dialect: str) -> None:
    raw = manifest(
        roles={
            "Worker": replica(1),
            "PS": replica(1, priorityClassName="low"),
            "Evaluator": replica(1, priority=0),
        },
        runPolicy={"schedulingPolicy": {"priorityClass": "high"}},
    )
    model = settled(raw, Settings(dialect=dialect))

    def of(name: str) -> Any:
        return model.manifests[name]["spec"].get("priorityClassName")

    assert [of("j-worker-0"), of("j-ps-0"), of("j-evaluator-0")] == ["high", "low", None]


def test_without_a_gang_pods_keep_their_own_class() -> None:
    raw = manifest(runPolicy={"schedulingPolicy": {"priorityClass": "high"}})
    model = settled(raw, Settings(gang=False))

    assert "priorityClassName" not in model.manifests["j-worker-0"]["spec"]


def test_a_class_that_does_not_exist_is_warned_of_and_not_written() -> None:
    raw = manifest(runPolicy={"schedulingPolicy": {"priorityClass": "high"}})
    model = settled(raw, priorities={"system-node-critical": 2_000_001_000})

    assert "priorityClassName" not in model.manifests["j-worker-0"]["spec"]
    assert "NoPriorityClass" in [event.reason for event in model.events]


def test_min_resources_are_the_sum_of_the_requests_of_the_first_members() -> None:
    worker, ps = replica(2, priorityClassName="high"), replica(3)
    asks = {"limits": {"nvidia.com/gpu": 1, "cpu": "9"}, "requests": {"cpu": "500m"}}
    worker["template"]["spec"]["containers"][0]["resources"] = asks
    ps["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    policy = {"schedulingPolicy": {"minAvailable": 3}}
    raw = manifest(roles={"PS": ps, "Worker": worker}, runPolicy=policy)

    model = settled(raw, priorities={"high": 100})

    assert model.objects[(VOLCANO_POD_GROUPS.resource, "j")]["spec"]["minResources"] == {
        "cpu": "1000m",
        "memory": "1073741824",
        "nvidia.com/gpu": "2",
    }


def test_a_native_group_is_replaced_because_it_is_immutable() -> None:
    model = settled(manifest(), Settings(dialect="native"))
    before = model.objects[(NATIVE_POD_GROUPS.resource, "j")]["metadata"]["uid"]
    model.edit(tfReplicaSpecs={"Worker": replica(1), "PS": replica(1)})
    model.settle()

    group = model.objects[(NATIVE_POD_GROUPS.resource, "j")]
    assert group["metadata"]["uid"] != before
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2


def test_an_unchanged_group_is_not_written_again() -> None:
    model = settled(manifest())
    key = (VOLCANO_POD_GROUPS.resource, "j")
    model.objects[key]["spec"]["queue"] = "default"
    model.objects[key]["status"] = {"phase": "Pending"}

    assert model.step() == []


def test_the_group_object_of_a_former_dialect_is_deleted_with_its_pods() -> None:
    model = settled(manifest())
    model.raw["metadata"]["annotations"] = {"muster.dev/gang-dialect": "pdb"}
    model.settle()
    assert list(model.objects) == [(VOLCANO_POD_GROUPS.resource, "j")]

    model.pods.clear()
    model.settle()
    assert list(model.objects) == [(POD_DISRUPTION_BUDGETS.resource, "j")]


MARKED = ["volcano", "kube-batch", "coscheduling", "native", "labels"]
SPOKEN = [(a, b) for a in (*MARKED, "pdb", "none") for b in (*MARKED, "pdb", "none")]


@pytest.mark.parametrize(("before", "after"), [p for p in SPOKEN if {*p} & {*MARKED}])
def test_later_pods_join_the_dialect_of_living_pods(before: str, after: str) -> None:
    model = settled(manifest(), Settings(dialect=before))
    objects, pod = dict(model.objects), model.manifests["j-worker-1"]
    model.run()
    model.settle()

    model.settings = Settings(dialect=after)
    del model.pods["j-worker-1"]
    model.settle()

    assert model.objects == objects
    again = model.manifests["j-worker-1"]
    assert again["metadata"] | {"uid": ""} == pod["metadata"] | {"uid": ""}
    assert again["spec"] == pod["spec"]


def test_a_crd_that_is_installed_later_splits_no_gang() -> None:
    model = settled(manifest(), served_dialects=frozenset())
    model.run()  # Pods that wait would be recreated in the new dialect, all of them.
    model.extra["served_dialects"] = ALL_DIALECTS
    model.edit(tfReplicaSpecs={"Worker": replica(3), "PS": replica(1)})
    model.settle()

    label = "pod-group.scheduling.sigs.k8s.io/name"
    assert all(label in pod.metadata.labels for pod in model.pods.values())
    assert not model.objects


def test_unscheduled_pods_with_another_mark_than_their_gang_are_replaced() -> None:
    model = settled(manifest(), Settings(dialect="labels"))
    waiting = model.pods.pop("j-worker-1")
    model.pods.clear()
    model.settings = Settings(dialect="volcano")
    model.settle()
    model.pods["j-worker-1"] = waiting

    model.settle()

    marks = {pod.metadata.annotations.get(GROUP_NAME_ANNOTATION) for pod in model.pods.values()}
    assert marks == {"j"}
    assert len(model.pods) == 3


def test_pods_marked_in_a_dialect_that_the_operator_does_not_write_stop_nothing() -> None:
    raw = manifest(roles={"Worker": replica(2)})
    mark = {"gang.scheduling.koordinator.sh/name": "j"}
    roles = raw["spec"]["tfReplicaSpecs"]
    roles["Worker"]["template"]["metadata"] = {"annotations": mark}
    model = settled(raw)
    model.edit(tfReplicaSpecs={"Worker": replica(3)})

    model.settle()

    assert len(model.pods) == 3
