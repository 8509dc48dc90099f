"""The scheduler's settings: a struct with defaults, the file that may change them, and its reload.

An invalid file is an error that names the key; it is never applied in part.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from kubekit.errors import ConfigError
from muster.contract.scheduler_rights import NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from yaml.nodes import Node

log = logging.getLogger(__name__)

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
NEEDS_RESTART = {"names": "names", "binds_in_flight": "bindsInFlight"}
"""Settings that are read once, at the start, and their names in the file."""


Weight = Annotated[float, msgspec.Meta(ge=0, le=1000)]


class Weights(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How much each consideration counts in the choice among feasible nodes.

    With weight 1 each outranks all that follow it; 0 leaves it out.
    """

    preferred: Weight = 1.0
    """The preferences of the pod, and of the pods already placed."""
    rack: Weight = 1.0
    """Nodes in racks where the gang already has pods."""
    together: Weight = 1.0
    """Nodes where the gang already has pods."""
    special: Weight = 1.0
    """Nodes without special resources that the pod does not request."""
    tight: Weight = 1.0
    """Nodes where less room is left over."""


class Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything a person may tune. Times in seconds."""

    names: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)] = NAMES
    hold_seconds: Seconds = 300.0
    max_hold_seconds: Seconds = 900.0
    """The longest time that a group's annotation may ask for, if `hold_seconds` is not longer."""
    repair_seconds: Seconds = 5.0
    """How long a half-bound gang may look for room before it is released."""
    starvation_after: Seconds = 1800.0
    report_after: Seconds = 1.0
    """A gang that waits for less than this is not reported."""
    report_every: Seconds = 30.0
    binds_in_flight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 64
    preempt: bool = True
    placement: Literal["pack", "spread"] = "pack"
    """The placement of gangs without the annotation `muster.dev/placement`."""
    rack_label: str = ""
    """The node label that names the rack: gangs are placed in as few racks as possible."""
    weights: Weights = Weights()


def load(path: Path, names: tuple[str, ...] = NAMES) -> Settings:
    """The settings in a YAML file; `names` unless the file sets them."""
    from kubekit.objects import yaml_reader  # loading yaml is slow

    try:
        text = path.read_text()
        twice = _written_twice(yaml_reader.compose(text))
        raw = yaml_reader.load(text)
    except (OSError, ValueError) as error:  # ValueError: not text, or not YAML
        raise ConfigError(f"{path}: {error}") from error
    if twice:
        raise ConfigError(f"{path}: the key {twice} is written twice")
    if raw is None:
        raw = {}
    if isinstance(raw, dict):
        raw.setdefault("names", list(names))
    try:
        return msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _written_twice(node: Node | None) -> str:
    """A key that one mapping of the file has twice, if any: YAML would silently drop the first."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return ""
    seen: set[str] = set()
    for key, value in node.value:
        if str(key.value) in seen:
            return str(key.value)
        seen.add(str(key.value))
        if twice := _written_twice(value):
            return twice
    return ""


def merge_reloaded(old: Settings, new: Settings) -> tuple[Settings, list[str]]:
    """The settings for a running scheduler, and the changed ones that need a restart."""
    left = [name for name in NEEDS_RESTART if getattr(old, name) != getattr(new, name)]
    unchanged = {name: getattr(old, name) for name in left}
    return msgspec.structs.replace(new, **unchanged), [NEEDS_RESTART[name] for name in left]


class SettingsFile:
    """The settings file of a running scheduler, and its state when it was last read."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path, self._names, self._stamp = path, names, _stamp(path)

    def reload(self, current: Settings) -> Settings:
        """The settings for the running scheduler; an invalid file changes nothing."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return current
        self._stamp = stamp
        try:
            new = load(self._path, self._names)
        except ConfigError as error:
            log.error("settings not reloaded: %s", error)
            return current
        merged, left = merge_reloaded(current, new)
        log.info("settings reloaded from %s", self._path)
        if left:
            log.warning("takes effect only after a restart: %s", ", ".join(left))
        return merged


def _stamp(path: Path) -> tuple[int, int] | None:
    """Differs whenever the file changes."""
    try:
        status = path.stat()
    except OSError:
        return None
    # The inode too: a ConfigMap volume replaces its files by new links, perhaps of the same time.
    return (status.st_mtime_ns, status.st_ino)
