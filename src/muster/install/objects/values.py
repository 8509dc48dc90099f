"""The choices of whoever installs Muster, with the names that the chart's `values.yaml` has.

`check` refuses values that cannot work before anything is applied; each error has the next step.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

from kubekit.errors import UsageError, no_such
from kubekit.objects.core import InvalidImageName, Quantity, check_image_name
from kubekit.objects.quantity import InvalidQuantity, parse_quantity
from kubekit.objects.selectors import is_label_value
from muster.contract.gang_dialects import DIALECT_CHOICES
from muster.contract.scheduler_rights import NAMES
from muster.scheduler.settings import Settings

NAMESPACE = "muster"
COMPONENTS = ("operator", "scheduler", "dashboard")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLASS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
Count = Annotated[int, msgspec.Meta(ge=1, le=20)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")]
"""A name as it stands in the header Host, without scheme and port."""


class Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the values: an unknown key is an error, never dropped."""


class Resources(Strict, frozen=True):
    """Resources of a container, as in a pod."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class OperatorValues(Strict, frozen=True):
    """The choices for the operator."""

    enabled: bool = True
    replicas: Count = 2
    resources: Resources = Resources({"cpu": "100m", "memory": "128Mi"})
    watch_namespace: str = ""
    """Serve this namespace only, with rights in it alone; empty: all namespaces."""
    gang_by_default: bool = True
    """Whether jobs are gangs if they do not say."""
    gang_dialect: str = "auto"
    gang_scheduler_name: str = "muster"
    pod_scheduler_name: str = ""
    """The scheduler of pods outside of gangs; empty: that of gangs, if it is installed too."""
    default_restart: Literal["replica", "gang"] = "replica"
    """What restarts when a replica of a job without `muster.dev/restart` fails."""
    extra_args: tuple[str, ...] = ()


class SchedulerValues(Strict, frozen=True):
    """The choices for the scheduler."""

    enabled: bool = True
    replicas: Count = 2
    resources: Resources = Resources({"cpu": "200m", "memory": "256Mi"})
    names: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = NAMES
    settings: dict[str, Any] = {}
    """The settings file: keys as in docs/scheduler.md."""
    extra_args: tuple[str, ...] = ()


class DashboardValues(Strict, frozen=True):
    """The choices for the dashboard, whose users sign in with their own bearer tokens."""

    enabled: bool = True
    replicas: Count = 1
    resources: Resources = Resources({"cpu": "50m", "memory": "192Mi"})
    port: Port = 7080
    """Of the Service and of the container."""
    hosts: tuple[HostName, ...] = ()
    """The names under which an Ingress serves it; loopback names always work."""
    read_only: bool = False
    """Refuse every change, whatever the rights of the user."""
    extra_args: tuple[str, ...] = ()


class Metrics(Strict, frozen=True):
    """The port of metrics and health."""

    port: Port = 8080
    service: bool = True


class Values(Strict, frozen=True):
    """Everything that may be chosen."""

    image: str = ""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    operator: OperatorValues = OperatorValues()
    scheduler: SchedulerValues = SchedulerValues()
    dashboard: DashboardValues = DashboardValues()
    metrics: Metrics = Metrics()
    pod_disruption_budget: bool = True
    network_policy: bool = True
    admission_policy: bool = True
    """Whether the API server rejects jobs with obvious mistakes, where it can."""
    priority_classes: dict[str, tuple[str, ...]] = {}
    """PriorityClasses, and the only namespaces whose pods may use each."""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components that are installed."""
        return tuple(name for name in COMPONENTS if self.of(name).enabled)

    @property
    def pod_scheduler(self) -> str:
        """The scheduler that the operator gives to pods outside of gangs; empty: none."""
        own, scheduler = self.operator, self.scheduler
        is_ours = scheduler.enabled and own.gang_scheduler_name in scheduler.names
        return own.pod_scheduler_name or (own.gang_scheduler_name if is_ours else "")

    def of(self, component: str) -> OperatorValues | SchedulerValues | DashboardValues:
        """The section of one component."""
        section: OperatorValues | SchedulerValues | DashboardValues = getattr(self, component)
        return section


def read(text: str, source: str, installed: Values | None = None) -> Values:
    """The values in a YAML file, over those that are installed."""
    from kubekit.objects import yaml_reader  # loading yaml is slow

    try:
        raw = yaml_reader.load(text)
    except yaml_reader.YamlError as error:
        raise UsageError(f"{source}: {error}") from error
    try:
        return msgspec.convert(
            _merged(msgspec.to_builtins(installed or Values()), raw or {}), Values
        )
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{source}: {error}", hint="The keys are those of deploy/chart/values.yaml."
        ) from error


def _merged(defaults: Any, chosen: Any) -> Any:
    """The chosen values over the defaults, section by section, as Helm does; null resets one."""
    if not (isinstance(defaults, dict) and isinstance(chosen, dict)):
        return chosen
    merged = {**defaults, **{key: _merged(defaults.get(key), chosen[key]) for key in chosen}}
    return {key: value for key, value in merged.items() if value is not None}


def check(values: Values) -> Values:
    """The values, if Muster can be installed with them."""
    check_image(values.image)
    check_each(values)
    if not values.components:
        raise UsageError("no component is enabled: nothing to install")
    if values.dashboard.enabled and values.dashboard.port == values.metrics.port:
        raise UsageError(f"dashboard.port and metrics.port are both {values.metrics.port}")
    return values


def check_each(values: Values) -> None:
    """UsageError if a value could never work, whatever the others are."""
    if watched := values.operator.watch_namespace:
        check_namespace(watched, "--watch-namespace")
    _check_priority_classes(values)
    for name in values.scheduler.names:
        _check_scheduler_name(name, "--scheduler-name")
    _check_scheduler_name(values.operator.gang_scheduler_name, "operator.gangSchedulerName")
    if single := values.operator.pod_scheduler_name:
        _check_scheduler_name(single, "operator.podSchedulerName")
    _check_dialect(values.operator.gang_dialect)
    _check_settings(values.scheduler.settings)
    _check_resources(values)


def check_image(image: str) -> None:
    if not image.strip():
        raise UsageError(
            "no image is given",
            hint="No image of Muster is published. Build one with deploy/Containerfile, push it "
            "where your nodes can pull it, and name it with --image.",
        )
    try:
        check_image_name(image)
    except InvalidImageName:
        raise UsageError(
            f"--image: {image!r} is not the name of an image",
            hint="Write it as for `podman pull`, for example registry.example.com/muster:1.0.",
        ) from None


def check_namespace(name: str, flag: str) -> str:
    """The name, if a namespace can have it; `flag` names its origin in the error."""
    if not _NAMESPACE.fullmatch(name):
        better = re.sub(r"[^a-z0-9]+", "-", name.lower())[:63].strip("-")
        example = f", for example {better}" if better else ""
        raise UsageError(
            f"{flag}: {name!r} is not the name of a namespace",
            hint=f"Use at most 63 lower-case letters, digits and '-'{example}.",
        )
    return name


def _check_priority_classes(values: Values) -> None:
    flag = "--priority-class"
    if values.priority_classes and values.operator.watch_namespace:
        raise UsageError(
            f"{flag} is for an installation for all namespaces",
            hint="Leave it out, or --watch-namespace.",
        )
    for name, namespaces in values.priority_classes.items():
        if not _CLASS.fullmatch(name):
            raise UsageError(
                f"{flag}: {name!r} is not the name of a PriorityClass",
                hint=f"Write it with its namespaces, for example {flag} high=team-a,team-b.",
            )
        for namespace in namespaces:
            check_namespace(namespace, flag)


def _check_scheduler_name(name: str, flag: str) -> None:
    if not (name and is_label_value(name)):
        raise UsageError(
            f"{flag}: {name!r} is not the name of a scheduler",
            hint="Write the schedulerName of the pods that it is to place, for example muster.",
        )


def _check_dialect(dialect: str) -> None:
    if dialect not in DIALECT_CHOICES:
        known = ", ".join(DIALECT_CHOICES)
        raise UsageError(f"{no_such('dialect', dialect, DIALECT_CHOICES)} (one of {known})")


def _check_settings(settings: dict[str, Any]) -> None:
    try:
        msgspec.convert(settings, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"scheduler.settings: {error}", hint="docs/scheduler.md lists the settings."
        ) from error
    if "names" in settings:
        raise UsageError("scheduler.settings: set the names with scheduler.names instead")


def _check_resources(values: Values) -> None:
    for component in COMPONENTS:
        resources = values.of(component).resources
        for field in ("requests", "limits"):
            for resource, amount in getattr(resources, field).items():
                try:
                    parse_quantity(amount)
                except InvalidQuantity as error:
                    where = f"{component}.resources.{field}.{resource}"
                    raise UsageError(f"{where}: {error}", hint=error.hint) from None
