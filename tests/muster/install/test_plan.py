"""An installation beside other systems: what is applied, what is left alone, what is refused."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.errors import UsageError
from kubekit.objects.core import Lease, LeaseSpec
from kubekit.objects.meta import ObjectMeta, Raw
from muster.contract import crds
from muster.install.existing_objects import Found
from muster.install.objects.manifests import components
from muster.install.objects.values import DashboardValues, OperatorValues, SchedulerValues, Values
from muster.install.other_systems import deployed_schedulers, other_operators
from muster.install.own_installations import binding_of, own_operators
from muster.install.plan import Plan, Request, plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = Values(image="registry.example.com/muster:1")


def planned(found: Found, values: Values = VALUES, **wish: Any) -> Plan:
    return plan(Request(values, "muster", **wish), found, NOW)


def names(plan: Plan, kind: str) -> list[str]:
    return [row["metadata"]["name"] for row in plan.objects if row["kind"] == kind]


def deployment(
    name: str,
    image: str = "",
    replicas: int = 1,
    labels: dict[str, str] | None = None,
    args: Sequence[str] = (),
) -> Raw:
    containers = [{"name": "main", "image": image, "args": list(args)}]
    return {
        "metadata": {"name": name, "namespace": "kubeflow", "labels": labels or {}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
    }


def lease(name: str, age: float = 1.0, holder: str = "x") -> Lease:
    spec = LeaseSpec(holder, 15, NOW - timedelta(seconds=age))
    return Lease(metadata=ObjectMeta(name=name, namespace="kubeflow"), spec=spec)


def theirs(name: str, *versions: str) -> dict[str, Raw]:
    """A CRD of another system."""
    (crd,) = [copy.deepcopy(row) for row in crds.load_all() if row["metadata"]["name"] == name]
    del crd["metadata"]["labels"]
    crd["spec"]["versions"] = [
        {**crd["spec"]["versions"][0], "name": version, "storage": number == 0}
        for number, version in enumerate(versions)
    ]
    return {name: crd}


def test_everything_is_applied_on_an_empty_cluster() -> None:
    result = planned(Found())

    assert names(result, "Namespace") == ["muster"]
    kinds = ("tfjobs", "mpijobs", "pytorchjobs", "jaxjobs", "podgroups", "queues", "hypernodes")
    brought = [name.partition(".")[0] for name in names(result, "CustomResourceDefinition")]
    assert sorted(brought) == sorted(kinds)
    assert names(result, "Deployment") == DEPLOYMENTS


def test_a_namespace_that_exists_is_not_changed() -> None:
    assert names(planned(Found(namespace_exists=True)), "Namespace") == []


def test_a_crd_of_another_system_is_not_changed() -> None:
    result = planned(Found(crds=theirs("tfjobs.kubeflow.org", "v1")))

    assert "tfjobs.kubeflow.org" not in names(result, "CustomResourceDefinition")
    assert (result.extended_crds, result.notes) == ([], [])


def test_our_own_crd_is_brought_up_to_date() -> None:
    ours = {crd["metadata"]["name"]: crd for crd in crds.load_all()}

    assert set(names(planned(Found(crds=ours)), "CustomResourceDefinition")) == set(ours)


def test_a_crd_of_another_system_without_our_version_is_named() -> None:
    result = planned(Found(crds=theirs("mpijobs.kubeflow.org", "v2beta1")))

    (note,) = result.notes
    assert note.startswith("the CRD mpijobs.kubeflow.org belongs to another system")
    assert "--take-crds" in note


def test_taking_a_crd_adds_our_versions_and_changes_none_of_theirs() -> None:
    before = theirs("mpijobs.kubeflow.org", "v2beta1")

    (crd,) = planned(Found(crds=before), take_crds=True).extended_crds

    first, *added = crd["spec"]["versions"]
    assert first == before["mpijobs.kubeflow.org"]["spec"]["versions"][0]
    assert "v1" in [version["name"] for version in added]
    assert not any(version["storage"] for version in added)
    assert "labels" not in crd["metadata"]


def test_a_crd_that_a_webhook_converts_is_not_taken() -> None:
    found = theirs("mpijobs.kubeflow.org", "v2beta1")
    found["mpijobs.kubeflow.org"]["spec"]["conversion"] = {"strategy": "Webhook"}

    with pytest.raises(UsageError, match="webhook"):
        planned(Found(crds=found), take_crds=True)


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({}, "scheduling.volcano.sh"),
        ({"gang_dialect": "coscheduling"}, "scheduling.x-k8s.io"),
        ({"gang_scheduler_name": "scheduler-plugins-scheduler"}, "scheduling.x-k8s.io"),
        ({"gang_dialect": "kube-batch"}, "scheduling.incubator.k8s.io"),
        ({"gang_dialect": "pdb"}, ""),
        ({"gang_dialect": "native"}, ""),  # the cluster's own
    ],
)
def test_of_the_groups_of_gangs_only_those_of_the_dialect_are_brought(
    given: dict[str, Any], group: str
) -> None:
    without = SchedulerValues(enabled=False)
    result = planned(
        Found(), Values(image="x", operator=OperatorValues(**given), scheduler=without)
    )

    found = [name for name in names(result, "CustomResourceDefinition") if "podgroups" in name]
    assert found == ([f"podgroups.{group}"] if group else [])


@pytest.mark.parametrize(
    ("deployments", "leases", "expected"),
    [
        ([deployment("training-operator")], [], ["training-operator"]),
        ([deployment("mine", "docker.io/mpioperator/mpi-operator:0.6")], [], ["mpi-operator"]),
        # Open Data Hub, and arena's chart.
        ([deployment("kubeflow-training-operator", "x/odh@sha256:1")], [], ["training-operator"]),
        ([deployment("arena-artifacts-tf-operator", "x/tf-operator:v1")], [], ["tf-operator"]),
        # Kubeflow Trainer acts on TrainJobs, of another group.
        ([deployment("kubeflow-trainer-controller-manager")], [], []),
        ([deployment("training-operator", replicas=0)], [], []),
        ([deployment("muster-operator", "registry.example.com/muster:1")], [], []),
        ([], [lease("1ca428e5.training-operator.kubeflow.org")], ["training-operator"]),
        ([], [lease("mpi-operator")], ["mpi-operator"]),
        ([], [lease("mpi-operator", age=3600)], []),
        ([], [lease("mpi-operator", holder="")], []),
    ],
)
def test_another_operator_is_found_by_deployment_or_lease(
    deployments: list[Raw], leases: list[Lease], expected: list[str]
) -> None:
    assert [row.name for row in other_operators(deployments, leases, NOW)] == expected


DEPLOYMENTS = ["muster-operator", "muster-scheduler", "muster-dashboard"]
RUNNING = other_operators([deployment("training-operator")], [], NOW)


def test_beside_another_operator_all_but_ours_is_installed() -> None:
    result = planned(Found(operators=RUNNING))

    assert names(result, "Deployment") == ["muster-scheduler", "muster-dashboard"]
    assert "Muster's is not installed" in result.notes[0]


def test_the_operator_is_refused_while_another_one_runs() -> None:
    with pytest.raises(UsageError, match="two operators would act on the same jobs"):
        planned(Found(operators=RUNNING), operator=True)


def test_an_operator_alone_is_refused_while_another_one_runs() -> None:
    without = SchedulerValues(enabled=False)
    alone = Values(image="x", scheduler=without, dashboard=DashboardValues(enabled=False))

    with pytest.raises(UsageError, match="nothing else to install"):
        planned(Found(operators=RUNNING), alone)


def test_a_dashboard_without_a_scheduler_is_installed_beside_another_operator() -> None:
    values = Values(image="x", scheduler=SchedulerValues(enabled=False))

    result = planned(Found(operators=RUNNING), values)

    assert names(result, "Deployment") == ["muster-dashboard"]


def test_a_name_whose_scheduler_is_alive_is_refused() -> None:
    volcano = Values(image="x", scheduler=SchedulerValues(names=("volcano",)))

    with pytest.raises(UsageError, match="the scheduler of volcano is alive"):
        planned(Found(leases=(lease("volcano"),)), volcano)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (deployment("volcano-scheduler", "docker.io/volcanosh/vc-scheduler:v1.12"), ["volcano"]),
        (deployment("my-scheduler", "docker.io/volcanosh/vc-scheduler:v1.12"), ["volcano"]),
        (
            deployment("volcano-scheduler", "x/vc-scheduler", args=["--scheduler-name=a", "-v=3"]),
            ["a"],
        ),
        (
            deployment("kube-batch", "x/kube-batch:v0.4", args=["--scheduler-name", "b"]),
            ["b"],
        ),
        (deployment("kube-batch", "kubesigs/kube-batch:v0.5"), ["kube-batch"]),
        (deployment("kube-batchd", "kubearbitrator/batchd:v0.3"), ["kube-batchd"]),
        (deployment("scheduler-plugins-scheduler"), ["scheduler-plugins-scheduler"]),
        (deployment("koord-scheduler"), ["koord-scheduler"]),
        (deployment("yunikorn-scheduler", "apache/yunikorn:scheduler-1.6.0"), ["yunikorn"]),
        (deployment("volcano-scheduler", replicas=0), []),
        (deployment("volcano-controllers", "docker.io/volcanosh/vc-controller-manager:v1"), []),
        (deployment("muster-scheduler", args=["--scheduler-name=muster"]), []),
        (deployment("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.13"), []),
    ],
)
def test_another_scheduler_is_found_by_its_deployment(theirs: Raw, expected: list[str]) -> None:
    """Most schedulers have no lease: leader election is off by default, or locks a ConfigMap."""
    assert [row.name for row in deployed_schedulers([theirs])] == expected


def test_a_name_whose_scheduler_is_deployed_is_refused() -> None:
    running = deployed_schedulers([deployment("kube-batch", "kubesigs/kube-batch:v0.5")])

    with pytest.raises(
        UsageError,
        match="the scheduler of kube-batch runs: deployment kube-batch in the namespace kubeflow",
    ):
        planned(Found(schedulers=running))
    names_of_ours = SchedulerValues(names=("muster",))
    assert planned(Found(schedulers=running), Values(image="x", scheduler=names_of_ours)).objects


def test_our_own_elected_scheduler_is_not_an_obstacle_to_an_upgrade() -> None:
    found = Found(leases=(lease("muster-scheduler.muster", holder="elected"),))

    assert names(planned(found), "Deployment") == DEPLOYMENTS


def operator_words(result: Plan) -> list[str]:
    named = (item for item in result.objects if item["metadata"]["name"] == "muster-operator")
    (row,) = (item for item in named if item["kind"] == "Deployment")
    words: list[str] = row["spec"]["template"]["spec"]["containers"][0]["args"]
    return words


def test_single_pods_get_our_scheduler_where_it_is_installed_or_runs() -> None:
    alone = Values(image="x", scheduler=SchedulerValues(enabled=False))
    running = Found(leases=(lease("muster-scheduler.muster"),))
    flag = "--pod-scheduler-name=muster"

    assert flag in operator_words(planned(Found()))
    assert flag in operator_words(planned(running, alone))
    assert flag not in operator_words(planned(Found(), alone))
    volcano = Values(image="x", operator=OperatorValues(gang_scheduler_name="volcano"))
    beside = Found(leases=(lease("volcano"),))
    assert "--pod-scheduler-name" not in " ".join(operator_words(planned(beside, volcano)))


def test_names_without_the_one_that_the_operator_gives_to_gangs_are_refused() -> None:
    """Whatever answered to it before is what this installation changes."""
    volcano = Values(image="x", scheduler=SchedulerValues(names=("volcano",)))
    before = Found(leases=(lease("muster-scheduler.muster", holder="elected"),))

    for found in (Found(), before):
        with pytest.raises(UsageError, match="gives pods to the scheduler muster") as refused:
            planned(found, volcano)
    assert refused.value.hint == (
        "Add --scheduler-name muster, or write {operator: {gangSchedulerName: volcano}} into a "
        "file for --values."
    )
    both = replace(volcano, scheduler=SchedulerValues(names=("volcano", "muster")))
    alone = replace(volcano, operator=OperatorValues(enabled=False))
    theirs = replace(volcano, operator=OperatorValues(gang_scheduler_name="volcano"))
    for values in (both, alone, theirs):
        assert planned(Found(), values).objects


def test_an_operator_may_give_gangs_to_a_scheduler_of_another_project() -> None:
    volcano = Values(image="x", operator=OperatorValues(gang_scheduler_name="volcano"))
    running = deployed_schedulers([deployment("volcano-scheduler")])

    assert planned(Found(schedulers=running), volcano).objects
    with pytest.raises(UsageError, match="gives pods to the scheduler volcano"):
        planned(Found(), volcano)
    single = Values(image="x", operator=OperatorValues(pod_scheduler_name="default-scheduler"))
    assert planned(Found(), single).objects


def test_an_operator_that_loses_its_scheduler_leaves_single_pods_to_the_cluster() -> None:
    """The lease of the scheduler that goes is still alive."""
    row = deployment("muster-scheduler")
    found = Found(leases=(lease("muster-scheduler.muster"),), deployments=(row,))
    alone = Values(image="x", scheduler=SchedulerValues(enabled=False))

    assert "--pod-scheduler-name" not in " ".join(operator_words(planned(found, alone)))


def test_our_operator_is_not_removed_because_another_one_appeared() -> None:
    found = Found(operators=RUNNING, deployments=(deployment("muster-operator"),))

    with pytest.raises(UsageError, match="both act on the same jobs") as refused:
        planned(found)

    assert "--scheduler-only" in refused.value.hint


def test_an_administrator_may_decide_that_jobs_are_no_gangs_by_default() -> None:
    values = Values(image="x", operator=OperatorValues(gang_by_default=False))

    assert "--enable-gang-scheduling=false" in operator_words(planned(Found(), values))


def test_an_installation_by_helm_is_left_to_helm() -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm"}

    with pytest.raises(UsageError, match="installed with Helm"):
        planned(Found(deployments=(deployment("muster-operator", labels=labels),)))


def installed(values: Values, namespace: str) -> Found:
    """A cluster on which an installation was made before."""
    rows = [row for row in components(values, namespace) if row["kind"].endswith("RoleBinding")]
    return Found(namespace_exists=True, bindings=tuple(map(binding_of, rows)))


def team(namespace: str) -> Values:
    """The values of an operator for one namespace."""
    return Values(
        image="x",
        operator=OperatorValues(watch_namespace=namespace),
        scheduler=SchedulerValues(enabled=False),
        dashboard=DashboardValues(enabled=False),
    )


def test_a_second_installation_in_another_namespace_is_refused() -> None:
    """It would take the rights of the first one: the bindings have fixed names."""
    with pytest.raises(UsageError, match="is installed in the namespace ml; ") as refused:
        planned(installed(VALUES, "ml"))

    assert "muster install --namespace ml" in refused.value.hint
    assert names(planned(installed(VALUES, "muster")), "Deployment") == DEPLOYMENTS


def test_a_second_operator_for_the_same_namespace_is_refused() -> None:
    with pytest.raises(UsageError, match="muster-operator is installed in the namespace ml"):
        planned(installed(team("a"), "ml"), team("a"))
    assert names(planned(installed(team("b"), "b"), team("a")), "Deployment") == ["muster-operator"]


def operators(values: Values, namespace: str) -> Found:
    """A cluster with an operator of ours in another namespace."""
    rows = [row for row in components(values, namespace) if row["kind"] == "Deployment"]
    return Found(namespace_exists=True, own_operators=tuple(own_operators(rows)))


def test_an_operator_for_one_namespace_is_refused_beside_one_for_all() -> None:
    with pytest.raises(UsageError) as refused:
        planned(operators(VALUES, "ml"), team("a"))

    assert str(refused.value) == (
        "there is muster-operator in the namespace ml, which serves all namespaces; "
        "both operators would act on the same jobs"
    )
    assert "It serves a already" in refused.value.hint
    assert "`muster uninstall --namespace ml`" in refused.value.hint


def test_an_operator_for_all_namespaces_is_refused_beside_one_for_a_namespace() -> None:
    with pytest.raises(UsageError) as refused:
        planned(operators(team("a"), "a"))

    assert "muster-operator in the namespace a, which serves the namespace a alone" in str(
        refused.value
    )
    assert "--scheduler-only, or remove it first with `muster uninstall --namespace a`" in (
        refused.value.hint
    )
    alone = Values(image="x", operator=OperatorValues(enabled=False))
    assert planned(operators(team("a"), "a"), alone).objects


def test_operators_for_different_namespaces_are_not_refused() -> None:
    assert names(planned(operators(team("b"), "b"), team("a")), "Deployment") == ["muster-operator"]


def test_an_operator_of_ours_that_is_scaled_to_zero_acts_on_no_job() -> None:
    (row,) = [item for item in components(team("a"), "a") if item["kind"] == "Deployment"]
    row["spec"]["replicas"] = 0

    assert own_operators([row]) == []


def test_a_user_who_may_not_look_for_other_operators_is_told() -> None:
    found = Found(namespace_exists=True, unread=("deployments.apps",))

    (note,) = planned(found, team("a")).notes

    assert "whether another operator serves a already" in note


def test_a_user_who_may_not_read_crds_installs_none() -> None:
    tenant = Values(
        image="x",
        operator=OperatorValues(watch_namespace="team"),
        scheduler=SchedulerValues(enabled=False),
    )
    found = Found(namespace_exists=True, unread=("customresourcedefinitions.apiextensions.k8s.io",))

    kinds = {row["kind"] for row in planned(found, tenant).objects}

    assert kinds & {"CustomResourceDefinition", "Namespace", "ClusterRole"} == set()


def test_a_cluster_that_cannot_keep_namespaces_from_a_class_is_refused() -> None:
    values = Values(image="x", priority_classes={"high": ("team",)})

    assert "muster-priorities" in names(planned(Found(), values), "ValidatingAdmissionPolicy")
    with pytest.raises(UsageError, match="so namespaces cannot be kept from a PriorityClass"):
        planned(Found(serves_policies=False), values)


def test_a_cluster_without_admission_policies_gets_none_and_a_note() -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

    old = planned(Found(serves_policies=False))

    assert [names(planned(Found()), kind) for kind in kinds] == [["muster-jobs"]] * 2
    assert [names(old, kind) for kind in kinds] == [[], []]
    assert "the cluster has no ValidatingAdmissionPolicy" in old.notes[-1]


def test_a_scheduler_alone_says_nothing_about_policies() -> None:
    without = Values(image="i", operator=OperatorValues(enabled=False))

    assert planned(Found(serves_policies=False), without).notes == []
