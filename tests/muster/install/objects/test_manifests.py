"""The objects of an installation: least rights, restricted pods, values that are checked."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.errors import UsageError
from kubekit.objects.meta import Raw
from kubekit.rights import expand
from muster.install.objects import manifests, roles, values
from muster.install.objects.values import (
    DashboardValues,
    OperatorValues,
    Resources,
    SchedulerValues,
    Values,
)
from muster.web.access.sign_in import SESSION_SECONDS

IMAGE = "registry.example.com/muster:1"


def built(**given: Any) -> list[Raw]:
    return manifests.build(Values(image=IMAGE, **given), "muster")


def of_kind(objects: list[Raw], kind: str) -> dict[str, Raw]:
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


@pytest.mark.parametrize("component", ["operator", "scheduler", "dashboard", "dashboard-edit"])
def test_no_rule_has_a_star(component: str) -> None:
    rights = roles.rights_of(component, Values())

    for right in expand((*rights.served, *rights.cluster, *rights.leases)):
        assert "*" not in (right.verb, right.group, right.resource)


def test_every_object_carries_the_label_by_which_uninstall_finds_it() -> None:
    for item in built():
        assert item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "muster"


def test_a_service_account_has_no_rights_but_those_that_its_component_declares() -> None:
    objects = built()
    bindings = [item for item in objects if item["kind"].endswith("RoleBinding")]

    accounts = {(row["roleRef"]["name"], row["subjects"][0]["name"]) for row in bindings}

    assert accounts == {(f"muster-{name}",) * 2 for name in ("operator", "scheduler")}


def test_the_dashboard_has_neither_a_token_nor_a_right() -> None:
    objects = built()
    pod = of_kind(objects, "Deployment")["muster-dashboard"]["spec"]["template"]["spec"]

    assert (
        of_kind(objects, "ServiceAccount")["muster-dashboard"]["automountServiceAccountToken"]
        is False
    )
    assert pod["volumes"] == [
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": "authority", "configMap": {"name": "kube-root-ca.crt"}},
    ]
    bound = [item for item in objects if "muster-dashboard" in str(item.get("subjects"))]
    assert bound == []


def test_the_service_of_the_dashboard_keeps_a_browser_at_one_pod() -> None:
    service = of_kind(built(), "Service")["muster-dashboard"]["spec"]

    assert service["sessionAffinity"] == "ClientIP"
    affinity = service["sessionAffinityConfig"]["clientIP"]
    assert affinity == {"timeoutSeconds": SESSION_SECONDS}  # Kubernetes' default is three hours
    assert service["ports"][0] == {"name": "http", "port": 7080, "targetPort": "http"}


@pytest.mark.parametrize("name", ["https://muster.example", "muster.example:443", ""])
def test_the_name_of_a_host_is_a_name_alone(name: str) -> None:
    with pytest.raises(UsageError, match=r"dashboard\.hosts"):
        values.read(f"dashboard: {{hosts: ['{name}']}}", "values.yaml")


def test_an_operator_for_one_namespace_has_rights_there_alone() -> None:
    objects = built(
        operator=OperatorValues(watch_namespace="team"), scheduler=SchedulerValues(enabled=False)
    )

    assert of_kind(objects, "ClusterRole") == of_kind(objects, "ClusterRoleBinding") == {}
    assert "muster-dashboard" in of_kind(objects, "Deployment")  # it needs no role at all
    assert of_kind(objects, "Role")["muster-operator"]["metadata"]["namespace"] == "team"
    words = of_kind(objects, "Deployment")["muster-operator"]["spec"]["template"]["spec"]
    assert "--namespace=team" in words["containers"][0]["args"]
    assert "--leader-elect-resource-namespace=team" in words["containers"][0]["args"]


def test_users_may_work_with_groups_of_gangs_and_with_the_jobs_of_our_operator() -> None:
    def resources(role: str, **given: Any) -> list[str]:
        rules = of_kind(built(**given), "ClusterRole")[role]["rules"]
        return [name for row in rules for name in row["resources"]]

    jobs = ["tfjobs", "mpijobs", "pytorchjobs", "jaxjobs"]
    for role in ("muster-view", "muster-edit"):
        assert resources(role) == [*jobs, "podgroups"]
        assert resources(role, operator=OperatorValues(enabled=False)) == ["podgroups"]
    neither = {
        "operator": OperatorValues(enabled=False),
        "scheduler": SchedulerValues(enabled=False),
    }
    assert "muster-edit" not in of_kind(built(**neither), "ClusterRole")


def test_the_lease_rule_has_one_lease_for_each_scheduler_name() -> None:
    objects = built(scheduler=SchedulerValues(names=("volcano", "My.Own")))
    rules = of_kind(objects, "Role")["muster-scheduler"]["rules"]

    (patched,) = [
        row for row in rules if row["resources"] == ["leases"] and "patch" in row["verbs"]
    ]
    assert patched["resourceNames"] == ["muster-scheduler.volcano", "muster-scheduler.my-own"]


def test_containers_run_without_privileges_on_a_read_only_root() -> None:
    for deployment in of_kind(built(), "Deployment").values():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_settings_of_the_scheduler_become_its_settings_file() -> None:
    chosen = Values(image=IMAGE, scheduler=SchedulerValues(settings={"holdSeconds": 60}))

    objects = manifests.build(chosen, "muster")

    assert of_kind(objects, "ConfigMap")["muster-scheduler"]["data"] == {
        "settings.json": '{"holdSeconds":60}'
    }
    assert "--scheduler-config=/etc/muster/settings.json" in manifests.arguments(
        "scheduler", chosen
    )


@pytest.mark.parametrize("component", values.COMPONENTS)
def test_the_components_know_every_flag_that_they_are_given(component: str) -> None:
    from muster.cli.verbs import dashboard, operator, scheduler

    verbs = {"operator": operator, "scheduler": scheduler, "dashboard": dashboard}
    command = verbs[component].command
    chosen = Values(
        dashboard=DashboardValues(hosts=("muster.example",), read_only=True),
        operator=OperatorValues(watch_namespace="team"),
        scheduler=SchedulerValues(settings={"holdSeconds": 60}),
    )
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}

    _, *words = manifests.arguments(component, chosen)

    assert [word for word in words if word.partition("=")[0] not in known] == []


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (Values(), "no image is given"),
        (
            Values(image=IMAGE, operator=OperatorValues(gang_dialect="volcno")),
            "no such dialect: volcno",
        ),
        (
            Values(image=IMAGE, scheduler=SchedulerValues(settings={"holdSecond": 1})),
            "unknown field `holdSecond`",
        ),
        (
            Values(
                image=IMAGE,
                operator=OperatorValues(enabled=False),
                scheduler=SchedulerValues(enabled=False),
                dashboard=DashboardValues(enabled=False),
            ),
            "nothing to install",
        ),
        (
            Values(image=IMAGE, dashboard=DashboardValues(port=8080)),
            "dashboard.port and metrics.port are both 8080",
        ),
        (Values(image=" "), "no image is given"),
        (Values(image="my image"), "--image: 'my image' is not the name of an image"),
        (Values(image="https://x/muster:1"), "is not the name of an image"),
        (Values(image="x/Muster:"), "is not the name of an image"),
        (
            Values(image=IMAGE, operator=OperatorValues(watch_namespace="Team A")),
            "--watch-namespace: 'Team A' is not the name of a namespace",
        ),
        (
            Values(image=IMAGE, scheduler=SchedulerValues(names=("muster", ""))),
            "--scheduler-name: '' is not the name of a scheduler",
        ),
        (
            Values(image=IMAGE, operator=OperatorValues(gang_scheduler_name="")),
            "operator.gangSchedulerName: '' is not the name of a scheduler",
        ),
        (
            Values(image=IMAGE, operator=OperatorValues(resources=Resources({"cpu": "many"}))),
            "operator.resources.requests.cpu: 'many' is not a quantity",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(chosen: Values, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        values.check(chosen)


def test_a_misspelt_value_is_an_error() -> None:
    with pytest.raises(UsageError, match="unknown field `replica`"):
        values.read("operator: {replica: 3}", "values.yaml")


def test_optional_objects_can_be_left_out() -> None:
    plain = Values(image=IMAGE, pod_disruption_budget=False, network_policy=False)
    plain = replace(plain, metrics=replace(plain.metrics, service=False))

    kinds = {item["kind"] for item in manifests.build(plain, "muster")}

    assert kinds & {"PodDisruptionBudget", "NetworkPolicy"} == set()
    assert list(of_kind(manifests.build(plain, "muster"), "Service")) == ["muster-dashboard"]
    assert of_kind(built(dashboard=DashboardValues(enabled=False)), "Service").keys() == {
        "muster-operator",
        "muster-scheduler",
    }
