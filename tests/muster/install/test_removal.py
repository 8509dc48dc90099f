"""Which objects `muster uninstall` removes where several installations share a cluster."""

from __future__ import annotations

import pytest

from kubekit.errors import UsageError
from kubekit.objects.meta import Raw
from muster.install import removal
from muster.install.objects.manifests import components
from muster.install.objects.values import DashboardValues, OperatorValues, SchedulerValues, Values
from muster.install.own_installations import read_bindings
from tests.muster.cli.fake_cluster import FakeCluster

CLUSTER_WIDE = Values(image="i")


def team(namespace: str) -> Values:
    """The values of an operator for one namespace."""
    return Values(
        image="i",
        operator=OperatorValues(watch_namespace=namespace),
        scheduler=SchedulerValues(enabled=False),
        dashboard=DashboardValues(enabled=False),
    )


def cluster(*installations: tuple[Values, str], leases: tuple[str, ...] = ()) -> FakeCluster:
    """A cluster with installations, and leases given as NAMESPACE/NAME."""
    plurals = {kind.kind: kind.plural for kind in removal.REMOVED}
    objects: dict[str, list[Raw]] = {plural: [] for plural in plurals.values()}
    for values, namespace in installations:
        for item in components(values, namespace):
            objects[plurals[item["kind"]]].append(item)
    rows = (lease.split("/") for lease in leases)
    objects["leases"] = [{"metadata": {"namespace": space, "name": name}} for space, name in rows]
    objects["customresourcedefinitions"] = []
    return FakeCluster(objects)


def found(client: FakeCluster, namespace: str) -> set[str]:
    return set(map(str, removal.find(client, namespace, crds=False).objects))


def test_the_operator_of_another_team_stays() -> None:
    leases = ("a/muster-operator", "b/muster-operator")
    both = cluster((team("a"), "a"), (team("b"), "b"), leases=leases)

    names = found(both, "a")

    assert {row.rpartition(" ")[2] for row in names} == {"a"}
    assert {row.partition("/")[0] for row in names} > {"deployment", "role", "rolebinding", "lease"}
    assert names == found(cluster((team("a"), "a"), leases=leases[:1]), "a")


def test_an_operator_of_a_team_is_removed_beside_one_for_all_others() -> None:
    leases = ("a/muster-operator", "kube-system/muster-operator")
    both = cluster((team("a"), "a"), (CLUSTER_WIDE, "muster"), leases=leases)

    assert {row.rpartition(" ")[2] for row in found(both, "a")} == {"a"}


def test_the_installation_for_the_whole_cluster_goes_whole_and_alone() -> None:
    leases = ("a/muster-operator", "kube-system/muster-operator")
    alone = cluster((CLUSTER_WIDE, "muster"), leases=leases[1:])
    both = cluster((team("a"), "a"), (CLUSTER_WIDE, "muster"), leases=leases)

    assert found(both, "muster") == found(alone, "muster")
    stored = sum(map(len, alone.objects.values()))
    assert len(found(alone, "muster")) == stored


def test_the_roles_of_users_stay_with_the_crds_of_jobs() -> None:
    client = cluster((CLUSTER_WIDE, "muster"))
    without_jobs = found(client, "muster")
    client.objects["customresourcedefinitions"] = [
        {"metadata": {"name": "tfjobs.kubeflow.org", "labels": {"app.kubernetes.io/part-of": "x"}}}
    ]

    with_jobs = removal.find(client, "muster", crds=False)
    everything = removal.find(client, "muster", crds=True)

    kept = {"clusterrole/muster-view", "clusterrole/muster-edit"}
    assert set(map(str, with_jobs.kept)) == kept
    assert set(map(str, with_jobs.objects)) == without_jobs - kept
    assert (everything.kept, set(map(str, everything.objects))) == ((), without_jobs)


def test_an_operator_whose_team_has_another_namespace_is_removed_with_its_roles_there() -> None:
    both = cluster((team("a"), "ops"), (team("b"), "b"), leases=("a/muster-operator",))

    names = found(both, "ops")

    assert "rolebinding/muster-operator in the namespace a" in names
    assert "lease/muster-operator in the namespace a" in names
    assert not any(row.endswith(" b") for row in names)


def test_other_namespaces_are_named_and_keep_their_crds() -> None:
    client = cluster((team("a"), "a"), (team("b"), "b"))

    assert removal.find(client, "muster", crds=False) == ([], ("a", "b"), ())
    with pytest.raises(UsageError, match="installed in the namespace b too, and needs the CRDs"):
        removal.find(client, "a", crds=True)


def test_a_user_with_rights_in_one_namespace_removes_the_operator_there() -> None:
    client = cluster((team("a"), "a"), (team("b"), "b"), leases=("a/muster-operator",))
    everything = found(client, "a")
    client.cluster_wide = False

    assert found(client, "a") == everything
    assert {row.owners for row in read_bindings(client, ("a",))} == {frozenset({"a"})}
