"""The models that are watched, and the node's own file of them.

The file is in the data directory and says where the versions are. It is not read from the published
ConfigMaps: users can change these, and they must not direct the node to other files.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import describe
from kubekit.objects.kinds import decoder_of
from kubekit.objects.meta import Key
from muster.contract.exported_models import Model, Version  # noqa: TC001 - msgspec decodes them
from muster.models.location import Location
from muster.models.version_reader import Look

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

log = logging.getLogger(__name__)

LAST_LOOKS = 5
"""Looks after the end of a job for a version that is not complete."""


class SavedModel(msgspec.Struct):
    """A model in the node's own file."""

    namespace: str
    config_map: str
    top: str
    path: str
    model: Model
    versions: dict[str, Version] = {}
    stamps: dict[str, tuple[int, int, int, int]] = {}
    is_of_pod: bool = False


@dataclass
class WatchedModel:
    key: Key
    """Of the ConfigMap."""
    place: Location
    model: Model
    last: Look = field(default_factory=Look)
    running: set[str] = field(default_factory=set)
    """The uids of the pods that may write to it."""
    looks_left: int = LAST_LOOKS
    """After the last of these pods ended."""
    published: bool = True
    """Whether the ConfigMap shows the last look."""
    work: float = 0.0
    """Processor time of the last look, in seconds."""
    due: float = 0.0
    """When the next look may be, on the monotonic clock."""


class ModelFile:
    """The models with versions, as JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = ""

    def load(self) -> list[WatchedModel]:
        """The models of an earlier process."""
        try:
            self._saved = self._path.read_text(encoding="utf-8", errors="replace")
            rows = decoder_of(list[SavedModel]).decode(self._saved)
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("models that were found earlier are not known: %s", describe(error))
            return []
        models = []
        for row in rows:
            key = Key(row.namespace, row.config_map)
            place = Location(row.top, row.path, row.is_of_pod)
            last = Look(row.versions, row.stamps)
            models.append(WatchedModel(key, place, row.model, last, looks_left=0))
        return models

    async def save(self, models: Iterable[WatchedModel]) -> None:
        """Write the models with versions, if anything about them has changed."""
        rows = [
            SavedModel(
                *model.key,
                model.place.top,
                model.place.path,
                model.model,
                model.last.versions,
                model.last.stamps,
                model.place.is_of_pod,
            )
            for model in models
            if model.last.versions
        ]
        text = msgspec.json.encode(rows).decode()
        if text == self._saved or not (rows or self._saved):
            return
        try:
            await asyncio.to_thread(self._write, text)
        except OSError as error:  # a full disk: the next round tries again
            log.warning("the list of models is not saved: %s", describe(error))
            return
        self._saved = text

    def _write(self, text: str) -> None:
        """Replace the file in one step."""
        draft = self._path.with_name(f".{self._path.name}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._path)
