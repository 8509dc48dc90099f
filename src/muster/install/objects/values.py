"""The choices of whoever installs Muster, with the names that the chart's `values.yaml` has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from kubekit.errors import UsageError
from kubekit.objects.core import Quantity  # noqa: TC001 - msgspec resolves annotations
from muster.contract.scheduler_rights import NAMES

NAMESPACE = "muster"
COMPONENTS = ("operator", "scheduler", "dashboard")
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
    gang_dialect: str = "auto"
    gang_scheduler_name: str = "muster"
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
    """The choices for the dashboard, whose users sign in with bearer tokens of their own."""

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
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components that are installed."""
        return tuple(name for name in COMPONENTS if self.of(name).enabled)

    def of(self, component: str) -> OperatorValues | SchedulerValues | DashboardValues:
        """The section of one component."""
        section: OperatorValues | SchedulerValues | DashboardValues = getattr(self, component)
        return section


def read(text: str, source: str) -> Values:
    """The values in a YAML file."""
    from kubekit.objects import yaml_reader  # loading yaml is slow

    try:
        raw = yaml_reader.load(text)
    except yaml_reader.YamlError as error:
        raise UsageError(f"{source}: {error}") from error
    try:
        return msgspec.convert(_merged(msgspec.to_builtins(Values()), raw or {}), Values)
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
