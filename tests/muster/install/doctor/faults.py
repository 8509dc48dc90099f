"""Faults to plant on a cluster with Muster, each with the finding that must name it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from kubekit.objects.kinds import CONFIG_MAPS, CRDS, DEPLOYMENTS, LEASES, NODES, PODS
from kubekit.objects.meta import Raw, timestamp
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from tests.builders import container, pod
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
Plant = Callable[[ControlPlane], AbstractContextManager[None]]


KUBE_BATCH: Raw = {
    "metadata": {"name": "kube-batch"},
    "spec": {
        "selector": {"matchLabels": {"app": "kube-batch"}},
        "template": {
            "metadata": {"labels": {"app": "kube-batch"}},
            "spec": {"containers": [{"name": "main", "image": "kubesigs/kube-batch:v0.5"}]},
        },
    },
}


@dataclass(frozen=True)
class Fault:
    plant: Plant
    level: str
    check: str
    text: str
    fix: str


@contextmanager
def added(path: str, body: Raw, plane: ControlPlane) -> Iterator[None]:
    """An object that is there for a while."""
    status, answer = plane.request("POST", path, body)
    assert status == 201, answer
    name = body["metadata"]["name"]
    try:
        yield
    finally:
        plane.request("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
        until(lambda: plane.request("GET", f"{path}/{name}")[0] == 404, what=f"{name} is deleted")


@contextmanager
def changed(path: str, change: Callable[[Raw], None], plane: ControlPlane) -> Iterator[None]:
    """An object that is different for a while."""
    status, before = plane.request("GET", path)
    assert status == 200, before

    def restore(obj: Raw) -> None:
        version = obj["metadata"]["resourceVersion"]
        obj.clear()
        obj.update(before | {"metadata": {**before["metadata"], "resourceVersion": version}})

    _write(path, change, plane)
    try:
        yield
    finally:
        _write(path, restore, plane)


def _write(path: str, edit: Callable[[Raw], None], plane: ControlPlane) -> None:
    """Change an object; again if a controller was faster."""

    def written() -> bool:
        _, obj = plane.request("GET", path)
        edit(obj)
        status, answer = plane.request("PUT", path, obj)
        assert status in (200, 409), answer
        return bool(status == 200)

    until(written, what=f"{path} is written")


@contextmanager
def removed(path: str, plane: ControlPlane) -> Iterator[None]:
    """An object that is not there for a while."""
    _, before = plane.request("GET", path)
    plane.request("DELETE", path)
    until(lambda: plane.request("GET", path)[0] == 404, what=f"{path} is deleted")
    try:
        yield
    finally:
        for field in ("resourceVersion", "uid", "managedFields", "creationTimestamp"):
            before["metadata"].pop(field, None)
        before.pop("status", None)
        status, answer = plane.request("POST", path.rpartition("/")[0], before)
    assert status == 201, answer


def lease(name: str, *, age: float = 0.0, holder: str = "elected") -> Raw:
    renewed = timestamp(datetime.now(UTC) - timedelta(seconds=age), micro=True)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": renewed}
    return {"metadata": {"name": name}, "spec": spec}


def pending(name: str, *, scheduler: str = "muster", **fields: Any) -> Plant:
    main = container(**fields.pop("container", {}))
    body = pod(name, main, meta=fields.pop("metadata", {}), schedulerName=scheduler, **fields)
    return partial(added, PODS.path("default"), body)


def _deployment(component: str) -> str:
    return DEPLOYMENTS.path("muster", f"muster-{component}")


def _crd(name: str, change: Callable[[list[Raw]], object]) -> Plant:
    def edit(crd: Raw) -> None:
        change(crd["spec"]["versions"])

    return partial(changed, CRDS.path(name=name), edit)


def _not_served(versions: list[Raw]) -> None:
    for version in versions:
        if version["name"] == "v1":
            version["served"] = False


def _without_rule(resource: str) -> Callable[[Raw], None]:
    def change(role: Raw) -> None:
        role["rules"] = [rule for rule in role["rules"] if resource not in rule["resources"]]

    return change


def _scaled(deployment: Raw) -> None:
    deployment["spec"]["replicas"] = 0


def _impossible(deployment: Raw) -> None:
    deployment["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none"}


def _other_image(deployment: Raw) -> None:
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/old:0"


def _argument(old: str, new: str) -> Callable[[Raw], None]:
    def change(deployment: Raw) -> None:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["args"] = [new if word == old else word for word in container["args"]]

    return change


def _no_holder(row: Raw) -> None:
    row["spec"]["holderIdentity"] = ""


def _gpu_label(node: Raw) -> None:
    node["metadata"]["labels"]["nvidia.com/gpu.present"] = "true"


def _cordoned(node: Raw) -> None:
    node["spec"]["unschedulable"] = True


def _training_operator(plane: ControlPlane) -> AbstractContextManager[None]:
    labels = {"app": "training-operator"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "training-operator"}, "spec": spec}
    return added(DEPLOYMENTS.path("default"), body, plane)


@contextmanager
def _no_operator(plane: ControlPlane) -> Iterator[None]:
    """Neither a Deployment, nor a process elsewhere that holds the lease."""
    with (
        removed(_deployment("operator"), plane),
        changed(LEASE("muster-operator"), _no_holder, plane),
    ):
        yield


@contextmanager
def _queue(plane: ControlPlane) -> Iterator[None]:
    """A gang whose group names a queue."""
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "research"}}
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **group}
    metadata = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    with (
        added(VOLCANO_POD_GROUPS.path("default"), body, plane),
        pending("p", scheduler="muster", metadata=metadata)(plane),
    ):
        yield


def _ahead(plane: ControlPlane) -> AbstractContextManager[None]:
    return added(LEASES.path("kube-node-lease"), lease("n9", age=-60), plane)


def _other_account(binding: Raw) -> None:
    binding["subjects"][0]["namespace"] = "elsewhere"


def _operator_of_a_team(plane: ControlPlane) -> AbstractContextManager[None]:
    _, operator = plane.request("GET", _deployment("operator"))
    body = {"metadata": {"name": "muster-operator", "labels": operator["metadata"]["labels"]}}
    spec = copy.deepcopy(operator["spec"])
    spec["template"]["spec"]["containers"][0]["args"].append("--namespace=default")
    return added(DEPLOYMENTS.path("default"), {**body, "spec": spec}, plane)


WAITING = {
    "gang": "default/big",
    "place": 1,
    "code": "X",
    "reason": "2 GPUs short",
    "since": "now",
}
LINE = {"metadata": {"name": "muster-line"}, "data": {"line": json.dumps([WAITING])}}
LEASE = partial(LEASES.path, "kube-system")
AGAIN = "muster install"
FAULTS: dict[str, Fault] = {
    "a missing CRD": Fault(
        partial(removed, CRDS.path(name="jaxjobs.kubeflow.org")),
        "error", "CRDs", "missing: jaxjobs.kubeflow.org", AGAIN,
    ),
    "a version that is not served": Fault(
        _crd("tfjobs.kubeflow.org", _not_served),
        "error", "CRDs", "tfjobs.kubeflow.org does not serve v1", AGAIN,
    ),
    "an old CRD": Fault(
        _crd("tfjobs.kubeflow.org", lambda versions: versions.pop()),
        "error", "CRDs", "tfjobs.kubeflow.org lacks v1", AGAIN,
    ),
    "a rule that the operator lacks": Fault(
        partial(changed, f"{RBAC}/clusterroles/muster-operator", _without_rule("events")),
        "error", "rights", "muster-operator may not create, patch events",
        'resources: [events], verbs: [create, patch]}',
    ),
    "a rule that the scheduler lacks": Fault(
        partial(changed, f"{RBAC}/namespaces/kube-system/roles/muster-scheduler",
                _without_rule("configmaps")),
        "error", "rights", "muster-scheduler may not patch configmaps muster-line",
        "resourceNames: [muster-line]",
    ),
    "a binding that is gone": Fault(
        partial(removed, f"{RBAC}/clusterrolebindings/muster-scheduler"),
        "error", "rights",
        "muster-scheduler lacks rights: the ClusterRoleBinding muster-scheduler does not exist",
        AGAIN,
    ),
    "a role that is gone": Fault(
        partial(removed, f"{RBAC}/clusterroles/muster-operator"),
        "error", "rights",
        "muster-operator lacks rights: the ClusterRole muster-operator does not exist", AGAIN,
    ),
    "a binding in the namespace of leases that is gone": Fault(
        partial(removed, f"{RBAC}/namespaces/kube-system/rolebindings/muster-operator"),
        "error", "rights",
        "the RoleBinding muster-operator in the namespace kube-system does not exist", AGAIN,
    ),
    "a binding that names another account": Fault(
        partial(changed, f"{RBAC}/clusterrolebindings/muster-operator", _other_account),
        "error", "rights",
        "the ClusterRoleBinding muster-operator does not name the account muster-operator of the "
        "namespace muster", AGAIN,
    ),
    "a role of users that is gone": Fault(
        partial(removed, f"{RBAC}/clusterroles/muster-edit"),
        "error", "rights", "users with the role edit may not submit jobs", AGAIN,
    ),
    "no operator": Fault(
        _no_operator,
        "error", "components", "nobody acts on jobs", "muster install",
    ),
    "a scheduler scaled to zero": Fault(
        partial(changed, _deployment("scheduler"), _scaled),
        "error", "components", "muster-scheduler is scaled to zero", "--replicas=2",
    ),
    "an operator whose pods fit nowhere": Fault(
        partial(changed, _deployment("operator"), _impossible),
        "error", "components", "muster-operator: 0 of 2 ready", "describe pods",
    ),
    "an operator without a leader": Fault(
        partial(changed, LEASE("muster-operator"), _no_holder),
        "error", "components", "no replica holds the lease muster-operator", "logs",
    ),
    "two operators": Fault(
        _training_operator, "error", "components", "two operators act on the same jobs", "scale",
    ),
    "an operator for one namespace beside the one for all": Fault(
        _operator_of_a_team,
        "error", "components",
        "two operators act on the same jobs: muster-operator in the namespace muster, which serves "
        "all namespaces, and muster-operator in the namespace default, which serves the namespace "
        "default alone", "muster uninstall --namespace default",
    ),
    "different images": Fault(
        partial(changed, _deployment("scheduler"), _other_image),
        "warning", "components", "different images", "muster install",
    ),
    "a scheduler name that nobody answers to": Fault(
        pending("p", scheduler="nobody"),
        "error", "scheduler names", "no scheduler answers to nobody; 1 pods wait", "nobody",
    ),
    "an operator that gives gangs to nobody": Fault(
        partial(changed, _deployment("operator"),
                _argument("--gang-scheduler-name=muster", "--gang-scheduler-name=absent")),
        "error", "scheduler names", "no scheduler answers to absent", "--scheduler-name absent",
    ),
    "an operator that lets single pods pass the line": Fault(
        partial(changed, _deployment("operator"),
                _argument("--pod-scheduler-name=muster", "--debug")),
        "warning", "scheduler names", "they pass the gangs in line", "muster install",
    ),
    "a scheduler name with two answers": Fault(
        partial(added, LEASE(), lease("kube-batch", holder="other")),
        "error", "scheduler names", "2 schedulers answer to kube-batch", "stop one",
    ),
    "a name to which a deployed scheduler answers too": Fault(
        partial(added, DEPLOYMENTS.path("default"), KUBE_BATCH),
        "error", "scheduler names", "deployment kube-batch in the namespace default", "stop one",
    ),
    "a dialect that is not served": Fault(
        pending("p", metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
        "error", "gang dialects", "the gang default/g needs podgroups.scheduling.x-k8s.io",
        "muster crds podgroups.scheduling.x-k8s.io | muster apply",
    ),
    "a group that does not exist": Fault(
        pending("p", metadata={"annotations": {"scheduling.k8s.io/group-name": "ghost"}}),
        "error", "gang dialects", "1 pods name the group default/ghost", "create the PodGroup",
    ),
    "a gang for a scheduler that does not read it": Fault(
        pending("p", scheduler="default-scheduler", nodeSelector={"disk": "none"},
                metadata={"labels": {"pod-group.scheduling.sigs.k8s.io/name": "g"}}),
        "error", "gang dialects", "which does not read labels", "schedulerName: muster",
    ),
    "a queue that nothing serves": Fault(
        _queue,
        "warning", "gang dialects", "queue of default/g: Muster has no queues", "arena explain g",
    ),
    "a device that no node offers": Fault(
        pending("p", container={"resources": {"limits": {"example.com/gpu": "1"}}}),
        "error", "nodes", "no node offers example.com/gpu", "device plugin",
    ),
    "a GPU node without GPUs": Fault(
        partial(changed, NODES.path(name="n0"), _gpu_label),
        "error", "nodes", "n0 is labelled nvidia.com/gpu.present", "device plugin",
    ),
    "a cordoned node": Fault(
        partial(changed, NODES.path(name="n0"), _cordoned),
        "warning", "nodes", "n0 is cordoned", "kubectl uncordon n0",
    ),
    "a node whose clock is ahead": Fault(
        _ahead, "error", "clocks", "the clock of the node n9 is", "timedatectl",
    ),
    "a gang that waits": Fault(
        partial(added, CONFIG_MAPS.path("kube-system"), LINE),
        "warning", "pending gangs", "default/big since now: 2 GPUs short",
        "arena explain big -n default",
    ),
}  # fmt: skip
