"""The values of an installation, read back from its objects, and what a change of them is. Pure.

The objects are all there is: no values are stored. So whoever upgrades has to name only what is to
change, and a number that somebody set with `kubectl scale` stays, too. The components' command
lines are read as `manifests` writes them; words that it does not write are `extraArgs`. A test
builds the objects of all kinds of values, reads them, and builds the same objects again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import parse_quantity
from muster.contract.scheduler_rights import NAMES
from muster.install.objects import admission_policy, priority_policy
from muster.install.objects.manifests import SETTINGS_FILE
from muster.install.objects.values import (
    COMPONENTS,
    DashboardValues,
    Metrics,
    OperatorValues,
    Resources,
    SchedulerValues,
    Values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kubekit.objects.meta import Raw

Objects = dict[tuple[str, str], "Raw"]
"""By kind and name."""


class _Words:
    """A command line from which known flags are taken, until only others are left."""

    def __init__(self, words: Iterable[Any]) -> None:
        self.rest = [str(word) for word in words][1:]

    def has(self, word: str) -> bool:
        if word not in self.rest:
            return False
        self.rest.remove(word)
        return True

    def one(self, flag: str, default: str = "") -> str:
        """The value of the first word with this flag: the words of `extraArgs` come last."""
        word = next((word for word in self.rest if word.startswith(f"{flag}=")), None)
        if word is None:
            return default
        self.rest.remove(word)
        return word.partition("=")[2]

    def all(self, flag: str) -> tuple[str, ...]:
        found = [word for word in self.rest if word.startswith(f"{flag}=")]
        self.rest = [word for word in self.rest if word not in found]
        return tuple(word.partition("=")[2] for word in found)


def read(objects: Iterable[Raw]) -> Values | None:
    """The values of the installation that has these objects; None if it has no component.

    If the components run different images, it is up to the user to name one: the image is empty.
    """
    found: Objects = {(row["kind"], row["metadata"]["name"]): row for row in objects}
    deployments = {
        name: row for name in COMPONENTS if (row := found.get(("Deployment", f"muster-{name}")))
    }
    if not deployments:
        return None
    pods = [row["spec"]["template"]["spec"] for row in deployments.values()]
    pod, main = pods[0], pods[0]["containers"][0]
    words = {name: _words(row) for name, row in deployments.items()}
    ports = [_port(row) for row in words.values()]
    scheduler = _scheduler(deployments, words, found)
    return Values(
        image=_same_image([row["containers"][0].get("image", "") for row in pods]),
        image_pull_policy=main.get("imagePullPolicy") or "IfNotPresent",
        image_pull_secrets=tuple(row["name"] for row in pod.get("imagePullSecrets") or []),
        operator=_operator(deployments, words, scheduler),
        scheduler=scheduler,
        dashboard=_dashboard(deployments, words),
        metrics=Metrics(port=ports[0], service=_has_metrics_service(found)),
        pod_disruption_budget=any(kind == "PodDisruptionBudget" for kind, _ in found),
        network_policy=any(kind == "NetworkPolicy" for kind, _ in found),
        node_selector=pod.get("nodeSelector") or {},
        tolerations=tuple(pod.get("tolerations") or []),
        priority_class_name=pod.get("priorityClassName") or "",
    )


def with_policies(values: Values, policies: Iterable[Raw], namespace: str) -> Values:
    """The values of an installation in a namespace, on a cluster that has these policies."""
    found = {row["metadata"]["name"]: row for row in policies}
    could = values.operator.enabled and not values.operator.watch_namespace
    priorities = found.get(priority_policy.NAME)
    return replace(
        values,
        admission_policy=not could or admission_policy.NAME in found,
        priority_classes=priority_policy.read(priorities, namespace) if priorities else {},
    )


def _words(deployment: Raw) -> _Words:
    words = _Words(deployment["spec"]["template"]["spec"]["containers"][0].get("args") or [])
    for word in ("--leader-elect", "--log-format=json", "--metrics-host="):
        words.has(word)
    return words


def _port(words: _Words) -> int:
    return read_integer(words.one("--metrics-port")) or Metrics().port


def _same_image(images: list[str]) -> str:
    return images[0] if len(set(images)) == 1 else ""


def _shared(deployment: Raw) -> dict[str, Any]:
    """The values that each component has."""
    spec = deployment["spec"]
    amounts = spec["template"]["spec"]["containers"][0].get("resources") or {}
    fields = {name: amounts.get(name) or {} for name in ("requests", "limits")}
    shared: dict[str, Any] = {"resources": Resources(**fields)}
    return {**shared, "replicas": spec["replicas"]} if "replicas" in spec else shared


def _operator(
    deployments: Mapping[str, Raw], words: Mapping[str, _Words], scheduler: SchedulerValues
) -> OperatorValues:
    if "operator" not in deployments:
        return OperatorValues(enabled=False)
    own = words["operator"]
    own.one("--leader-elect-resource-namespace")
    default = OperatorValues()
    restart = own.one("--default-restart", default.default_restart)
    values = OperatorValues(
        gang_dialect=own.one("--gang-dialect", default.gang_dialect),
        gang_scheduler_name=own.one("--gang-scheduler-name", default.gang_scheduler_name),
        default_restart="gang" if restart == "gang" else "replica",
        gang_by_default=not own.has("--enable-gang-scheduling=false"),
        watch_namespace=own.one("--namespace"),
        **_shared(deployments["operator"]),
    )
    single = own.one("--pod-scheduler-name")
    derived = Values(operator=values, scheduler=scheduler).pod_scheduler
    pod_scheduler_name = "" if single == derived else single
    return replace(values, pod_scheduler_name=pod_scheduler_name, extra_args=tuple(own.rest))


def _scheduler(
    deployments: Mapping[str, Raw], words: Mapping[str, _Words], found: Objects
) -> SchedulerValues:
    if "scheduler" not in deployments:
        return SchedulerValues(enabled=False)
    own = words["scheduler"]
    settings = {}
    if own.one("--scheduler-config"):
        data = found.get(("ConfigMap", "muster-scheduler"), {}).get("data") or {}
        settings = msgspec.json.decode(data.get(SETTINGS_FILE, "{}"), type=dict[str, Any])
    return SchedulerValues(
        names=own.all("--scheduler-name") or NAMES,
        settings=settings,
        extra_args=tuple(own.rest),
        **_shared(deployments["scheduler"]),
    )


def _dashboard(deployments: Mapping[str, Raw], words: Mapping[str, _Words]) -> DashboardValues:
    if "dashboard" not in deployments:
        return DashboardValues(enabled=False)
    own = words["dashboard"]
    own.one("--reader-image")
    own.has("--in-cluster")
    return DashboardValues(
        port=read_integer(own.one("--port")) or DashboardValues().port,
        hosts=own.all("--host"),
        read_only=own.has("--read-only"),
        extra_args=tuple(own.rest),
        **_shared(deployments["dashboard"]),
    )


def _has_metrics_service(found: Objects) -> bool:
    ports = (row["spec"]["ports"] for (kind, _), row in found.items() if kind == "Service")
    return any(port["name"] == "metrics" for rows in ports for port in rows)


def started(values: Values) -> Values:
    """The values with the default number of replicas for components that are scaled to zero."""
    sections = {name: values.of(name) for name in COMPONENTS}
    stopped = {name: own for name, own in sections.items() if own.replicas == 0}
    return replace(
        values,
        **{name: replace(own, replicas=type(own)().replicas) for name, own in stopped.items()},
    )


def differences(before: Values, after: Values) -> list[str]:
    """What changes, one line for each value, with the keys of the values file."""
    old, new = (dict(_flat(msgspec.to_builtins(values))) for values in (before, after))
    return [
        f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}"
        for key in dict.fromkeys((*old, *new))
        if not _is_same(key, old.get(key), new.get(key))
    ]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for key, row in value.items():
        yield from _flat(row, f"{path}.{key}" if path else key)


def _is_same(key: str, old: Any, new: Any) -> bool:
    """The server writes a quantity its own way: 0.5 becomes 500m."""
    if ".resources." in key and None not in (old, new):
        return parse_quantity(old) == parse_quantity(new)
    return bool(old == new)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return "none" if value in (None, "") else str(value)
