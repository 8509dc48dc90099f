"""The scheduler's settings: a struct with defaults, and the file that may change them.

Read by `state` and `decide`; the service reloads it when the file changes. A file that cannot be
used is an error that names the key, and never half applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import yaml

from muster.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("muster", "kube-batchd", "kube-batch")


class Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything a person may tune. Times in seconds."""

    names: tuple[str, ...] = NAMES
    hold_seconds: float = 300.0
    repair_seconds: float = 5.0
    """How long a gang whose binds failed half-way may look for room before it is released."""
    starvation_after: float = 1800.0
    report_after: float = 1.0
    """A gang that waits shorter than this is not reported."""
    report_every: float = 30.0
    binds_in_flight: int = 48
    preempt: bool = True


def load(path: Path, names: tuple[str, ...] = NAMES) -> Settings:
    """The settings in a YAML file; `names` unless the file sets them."""
    try:
        raw = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if isinstance(raw, dict):
        raw.setdefault("names", list(names))
    try:
        return msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
