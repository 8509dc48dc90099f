"""The values of an installation are read from its objects, and what changes is said by value."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.objects.meta import Raw
from muster.install import installed_values
from muster.install.objects import manifests, values
from muster.install.objects.values import Values
from tests.muster.install.objects.test_chart import CHOICES

IMAGE = "registry.example.com/muster:1"


def chosen(text: dict[str, Any]) -> Values:
    return values.read(str({"image": IMAGE, **text}), "values.yaml")


def read(objects: list[Raw]) -> Values:
    found = installed_values.read(objects)
    assert found is not None
    policies = [row for row in objects if row["kind"] == "ValidatingAdmissionPolicy"]
    return installed_values.with_policies(found, policies, "there")


def test_no_components_are_no_installation() -> None:
    assert installed_values.read(manifests.build(Values(image=IMAGE), "there")[:3]) is None


@pytest.mark.parametrize("choice", CHOICES)
def test_values_that_are_read_give_the_same_objects_again(choice: str) -> None:
    objects = manifests.components(chosen(CHOICES[choice]), "there")

    assert manifests.components(read(objects), "there") == objects


@pytest.mark.parametrize("choice", CHOICES)
def test_values_that_are_read_are_those_that_were_chosen(choice: str) -> None:
    wanted = chosen(CHOICES[choice])

    found = installed_values.differences(wanted, read(manifests.components(wanted, "there")))

    # What a component that is not installed would have is not known.
    assert [row for row in found if row.partition(".")[0] not in ("dashboard", "operator")] == []


def edited(component: str, **fields: Any) -> list[Raw]:
    objects = manifests.components(Values(image=IMAGE), "there")
    (row,) = (
        row
        for row in objects
        if (row["kind"], row["metadata"]["name"]) == ("Deployment", f"muster-{component}")
    )
    row["spec"] |= fields
    return objects


def test_what_somebody_changed_by_hand_is_kept() -> None:
    objects = edited("scheduler", replicas=3)
    pod = next(row for row in objects if row["kind"] == "Deployment")["spec"]["template"]["spec"]
    pod["containers"][0]["args"].append("--loglevel=debug")

    found = read(objects)

    assert found.scheduler.replicas == 3
    assert found.operator.extra_args == ("--loglevel=debug",)


def test_a_component_that_is_scaled_to_zero_gets_replicas_again_and_that_is_said() -> None:
    before = read(edited("scheduler", replicas=0))
    after = installed_values.started(before)

    assert (after.operator, after.scheduler.replicas) == (before.operator, 2)
    assert installed_values.differences(before, after) == ["scheduler.replicas: 0 -> 2"]


def test_different_images_are_not_chosen_between() -> None:
    objects = edited("scheduler")
    pod = next(row for row in objects if row["kind"] == "Deployment")["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = "registry.example.com/muster:2"

    assert read(objects).image == ""


def test_a_change_is_named_by_the_keys_of_the_file() -> None:
    before = Values(image=IMAGE)
    scheduler = replace(before.scheduler, names=("volcano",), settings={"holdSeconds": 60})
    after = replace(before, scheduler=scheduler, network_policy=False, priority_class_name="high")

    assert installed_values.differences(before, after) == [
        "scheduler.names: muster, kube-batchd, kube-batch -> volcano",
        "networkPolicy: true -> false",
        "priorityClassName: none -> high",
        "scheduler.settings.holdSeconds: none -> 60",
    ]


def test_a_quantity_that_the_server_writes_in_another_way_is_not_a_change() -> None:
    half = {"operator": {"resources": {"limits": {"cpu": "0.5"}}}}
    same = {"operator": {"resources": {"limits": {"cpu": "500m"}}}}

    assert installed_values.differences(chosen(half), chosen(same)) == []


def test_a_file_of_values_is_read_over_those_that_are_installed() -> None:
    installed = chosen({"operator": {"replicas": 3}, "scheduler": {"names": ["muster", "volcano"]}})

    found = values.read("operator: {gangDialect: pdb, replicas: null}", "values.yaml", installed)

    assert found.operator.gang_dialect == "pdb"
    assert found.operator.replicas == 2
    assert found.scheduler.names == ("muster", "volcano")
