"""The scheduler's settings: a struct with defaults, and the file that may change them.

Read by `state` and `decide`; the service reloads it when the file changes. A file that cannot be
used is an error that names the key, and never half applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import yaml

from muster.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

Seconds = Annotated[float, msgspec.Meta(ge=0)]
NAMES = ("muster", "kube-batchd", "kube-batch")


class Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything a person may tune. Times in seconds."""

    names: tuple[str, ...] = NAMES
    hold_seconds: Seconds = 300.0
    repair_seconds: Seconds = 5.0
    """How long a gang whose binds failed half-way may look for room before it is released."""
    starvation_after: Seconds = 1800.0
    report_after: Seconds = 1.0
    """A gang that waits shorter than this is not reported."""
    report_every: Seconds = 30.0
    binds_in_flight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 48
    preempt: bool = True


def load(path: Path, names: tuple[str, ...] = NAMES) -> Settings:
    """The settings in a YAML file; `names` unless the file sets them."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if raw is None:
        raw = {}
    if isinstance(raw, dict):
        raw.setdefault("names", list(names))
    try:
        return msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
