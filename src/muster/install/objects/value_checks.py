"""Values that cannot work, refused before anything is applied; each error has the next step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.errors import InvalidImageName, InvalidQuantity, UsageError, no_such
from kubekit.objects.image_names import check_image_name
from kubekit.objects.quantity import parse_quantity
from kubekit.objects.selectors import is_label_value
from muster.contract.gang_dialects import DIALECT_CHOICES
from muster.install.objects.values import COMPONENTS
from muster.scheduler.settings import Settings

if TYPE_CHECKING:
    from muster.install.objects.values import Values

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check(values: Values) -> Values:
    """The values, if Muster can be installed with them."""
    _check_image(values.image)
    if not values.components:
        raise UsageError("no component is enabled: nothing to install")
    if values.dashboard.enabled and values.dashboard.port == values.metrics.port:
        raise UsageError(f"dashboard.port and metrics.port are both {values.metrics.port}")
    if watched := values.operator.watch_namespace:
        check_namespace(watched, "--watch-namespace")
    for name in values.scheduler.names:
        _check_scheduler_name(name, "--scheduler-name")
    _check_scheduler_name(values.operator.gang_scheduler_name, "operator.gangSchedulerName")
    _check_dialect(values.operator.gang_dialect)
    _check_settings(values.scheduler.settings)
    _check_resources(values)
    return values


def _check_image(image: str) -> None:
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
