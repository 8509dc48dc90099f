"""A gang's object follows the job's policy, also when fields are removed from it."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.meta import Raw
from muster.contract.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    NATIVE_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)
from muster.operator.decision_types import Settings
from tests.api_in_memory import merged
from tests.muster.operator.builders import Model, manifest, replica

POLICY: Raw = {
    "queue": "q",
    "priorityClass": "high",
    "minResources": {"cpu": "9", "memory": "9Gi"},
    "scheduleTimeoutSeconds": 60,
}


def asking(**resources: Any) -> Raw:
    body = replica(2)
    body["template"]["spec"]["containers"][0]["resources"] = {"requests": resources}
    return {"Worker": body}


def settled(dialect: str, roles: Raw) -> Model:
    raw = manifest(roles=roles, runPolicy={"schedulingPolicy": POLICY})
    model = Model(raw, Settings(dialect=dialect))
    model.settle()
    return model


def spec(model: Model) -> Raw:
    (group,) = model.objects.values()
    group_spec: Raw = group["spec"]
    return group_spec


@pytest.mark.parametrize(
    ("dialect", "left"),
    [
        (
            "volcano",
            {"minMember": 2, "minTaskMember": {"worker": 2}, "minResources": {"cpu": "2000m"}},
        ),
        ("kube-batch", {"minMember": 2}),
        ("coscheduling", {"minMember": 2, "minResources": {"cpu": "2000m"}}),
        ("native", {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"}),
    ],
)
def test_fields_removed_from_the_policy_leave_the_group(dialect: str, left: Raw) -> None:
    model = settled(dialect, asking(cpu=1))

    model.edit(runPolicy={"schedulingPolicy": {}})
    model.settle()

    assert spec(model) == left


def test_a_group_loses_minimums_that_nothing_requests_any_more() -> None:
    model = settled("volcano", {"Worker": replica(2)})

    model.edit(runPolicy={"schedulingPolicy": {}})
    model.settle()

    assert "minResources" not in spec(model)


def test_removed_roles_and_resources_leave_the_minimums() -> None:
    model = Model(manifest(roles={**asking(cpu=1, memory="1Gi"), "PS": replica(1)}))
    model.settle()
    assert spec(model)["minTaskMember"] == {"ps": 1, "worker": 2}

    model.edit(tfReplicaSpecs=asking(cpu=1))
    model.settle()

    assert spec(model)["minTaskMember"] == {"worker": 2}
    assert spec(model)["minResources"] == {"cpu": "2000m"}


@pytest.mark.parametrize(
    ("dialect", "resource", "filled"),
    [
        ("volcano", VOLCANO_POD_GROUPS, {"queue": "default"}),
        ("kube-batch", KUBE_BATCH_POD_GROUPS, {"queue": "default", "unheardOf": {"a": 1}}),
        ("coscheduling", COSCHEDULING_POD_GROUPS, {"unheardOf": {"a": 1}}),
        ("native", NATIVE_POD_GROUPS, {"priorityClassName": "usual", "priority": 5}),
    ],
)
def test_defaults_that_the_server_fills_in_are_not_removed(
    dialect: str, resource: Any, filled: Raw
) -> None:
    model = Model(manifest(), Settings(dialect=dialect))
    model.settle()
    key = (resource.resource, "j")
    model.objects[key] = merged(model.objects[key], {"spec": filled})

    assert model.step() == []
