"""The rights of an MPIJob's launcher, and its service account."""

from __future__ import annotations

import pytest

from kubekit.objects.kinds import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from kubekit.objects.meta import Raw
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import Model, replica
from tests.muster.operator.frameworks.mpi_jobs import LAUNCHER, WORKERS, job


def test_the_launcher_may_run_commands_in_its_own_workers_only() -> None:
    model = Model(job())
    model.settle()

    rules = model.objects[(ROLES.resource, "j-launcher")]["rules"]
    execs = next(rule for rule in rules if rule["resources"] == ["pods/exec"])
    assert execs["resourceNames"] == list(WORKERS)
    assert (SERVICE_ACCOUNTS.resource, "j-launcher") in model.objects
    subject = model.objects[(ROLE_BINDINGS.resource, "j-launcher")]["subjects"][0]
    assert subject["name"] == "j-launcher"

    model.edit(
        mpiReplicaSpecs={"Launcher": replica(1, name="mpi"), "Worker": replica(0, name="mpi")}
    )
    model.settle()
    assert model.objects[(ROLES.resource, "j-launcher")]["rules"] == []


@pytest.mark.parametrize("image", ["", "kubectl-delivery:1"])
def test_a_launcher_may_only_exec_into_workers(image: str) -> None:
    model = Model(job(), Settings(delivery_image=image))
    model.settle()

    # A websocket is opened by GET; newer API servers require the right to create as well.
    execs = {"resources": ["pods/exec"], "resourceNames": list(WORKERS), "verbs": ["create", "get"]}
    # The image that delivers kubectl waits for all workers by a watch of pods.
    looks = {"resources": ["pods"], "verbs": ["get", "list", "watch"]}
    rules = model.objects[(ROLES.resource, "j-launcher")]["rules"]
    assert rules == [{"apiGroups": [""], **rule} for rule in ([looks] if image else []) + [execs]]


def test_a_role_without_rules_is_written_once() -> None:
    raw = job()
    raw["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 0
    model = Model(raw)
    model.settle()
    # Some servers drop empty lists.
    model.objects[(ROLES.resource, "j-launcher")]["rules"] = None

    assert model.step() == []


def test_a_launcher_with_an_account_of_its_own_keeps_it() -> None:
    raw = job()
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "mine"
    model = Model(raw)
    model.settle()
    model.run(*WORKERS)
    model.settle()

    assert (SERVICE_ACCOUNTS.resource, "j-launcher") not in model.objects
    assert model.objects[(ROLE_BINDINGS.resource, "j-launcher")]["subjects"][0]["name"] == "mine"
    assert model.manifests[LAUNCHER]["spec"]["serviceAccountName"] == "mine"


@pytest.mark.parametrize(
    ("written", "account"),
    [
        ({"serviceAccountName": ""}, "j-launcher"),
        ({"serviceAccountName": None}, "j-launcher"),
        ({"serviceAccount": "mine"}, "mine"),
        ({"serviceAccountName": "", "serviceAccount": "mine"}, "mine"),
    ],
)
def test_a_launcher_runs_as_the_account_that_may_reach_its_workers(
    written: Raw, account: str
) -> None:
    raw = job()
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"] |= written
    model = Model(raw)
    model.settle()
    model.run(*WORKERS)
    model.settle()

    assert model.objects[(ROLE_BINDINGS.resource, "j-launcher")]["subjects"][0]["name"] == account
    assert model.manifests[LAUNCHER]["spec"]["serviceAccountName"] == account
    assert ((SERVICE_ACCOUNTS.resource, "j-launcher") in model.objects) == (account == "j-launcher")
