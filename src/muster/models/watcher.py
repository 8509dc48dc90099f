"""Publishes the models that pods export: looks at their directories, writes ConfigMaps.

Only pods with the annotation `muster.dev/model-dir` cost anything. While one of a job's pods runs,
its directory is looked at every two seconds, and once more after the last one ended. From then on
only deletions are noticed, at leisure: the ConfigMap goes when the last version is gone. This task
is the only writer of these ConfigMaps.

What is watched is in a file of the data directory, which says where the versions are. It is not
read from the published ConfigMaps: users can change these, and they must not direct the node to
other files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from kubekit.errors import MusterError, describe
from kubekit.objects.kinds import CONFIG_MAPS, decoder_of
from kubekit.objects.meta import Key, ObjectMeta
from kubekit.request_errors import ApiError, NotFound, Unreachable
from kubekit.telemetry import unexpected_errors
from kubekit.telemetry.unexpected_errors import RepeatedLine
from muster.contract import exported_models
from muster.contract.exported_models import MODEL_DIR, MODEL_NAME, Maker, Model, Version
from muster.models import model_versions
from muster.models.model_versions import Look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.watch.informer_cache import Change


log = logging.getLogger(__name__)
_failures = RepeatedLine(log, logging.WARNING)

INTERVAL = 2.0
"""Seconds between two looks at the directory of a running job."""
_PAUSE_PER_WORK = 20.0
"""Looking may cost a twentieth of a processor."""
_LIGHT = 0.01
"""Seconds of processor time of a look. Directories that cost more share a twentieth of a processor
among themselves and do not delay the others."""
_IDLE_ROUNDS = 15
"""After this many rounds, the directories of ended jobs are checked for deletions."""


class ModelWatcher:
    def __init__(
        self,
        client: Client,
        folders: PodFolders,
        file: Path,
    ) -> None:
        """Follow the pods with a model directory; `file` is where the watcher remembers them."""
        self._client, self._folders, self._file = client, folders, ModelFile(file)
        self._new: dict[str, ExportingPod] = {}
        self._models: dict[Key, WatchedModel] = {}
        self._of_pod: dict[str, Key] = {}
        self._wake = asyncio.Event()
        folders.subscribe(self._pod_changed)

    def _pod_changed(self, change: Change[Any]) -> None:
        pod: ExportingPod = change.current
        if not model_directory(pod):
            return
        uid = pod.metadata.uid
        if uid not in self._of_pod:
            if change.new is not None:  # a pod that is gone wrote nothing that was not seen
                self._new[uid] = pod
                self._wake.set()
            else:
                self._new.pop(uid, None)
        elif (change.new is None or pod.finished) and self._of_pod[uid] in self._models:
            self._models[self._of_pod[uid]].running.discard(uid)
        if change.new is None:
            self._of_pod.pop(uid, None)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        self._load()
        rounds = 0
        while True:
            if not self._new and not self._models:
                self._wake.clear()
                await self._wake.wait()
            started = time.thread_time()
            work = await self._round(check_ended=rounds % _IDLE_ROUNDS == 0)
            work += time.thread_time() - started
            rounds += 1
            await asyncio.sleep(max(INTERVAL, _PAUSE_PER_WORK * work))

    def _load(self) -> None:
        """Continue with the models of an earlier process."""
        for model in self._file.load():
            self._models.setdefault(model.key, model)

    async def _round(self, *, check_ended: bool) -> float:
        """Returns the processor time of directories that are cheap to look at."""
        for uid, pod in list(self._new.items()):
            done = True  # a pod whose fields bring out a bug is left out
            with unexpected_errors.isolated("models", pod.metadata.key):
                done = await self._add(pod)
            if done:
                self._new.pop(uid, None)
        work = 0.0
        for model in list(self._models.values()):
            is_active = bool(model.running or model.looks_left)
            if not (is_active or check_ended or not model.published):
                continue
            if time.monotonic() >= model.due:
                await self._attempt(model, is_active=is_active)
                work += min(model.work, _LIGHT)
        await self._file.save(self._models.values())
        return work

    async def _attempt(self, model: WatchedModel, *, is_active: bool) -> None:
        """Look at one directory, whose files may be made to break this: others are not affected."""
        try:
            if is_active:
                await self._look(model)
            else:  # of a job that has ended, only deleted versions are noticed
                await self._take(model, await asyncio.to_thread(_measured, model, None, _nowhere))
        except Exception as error:  # noqa: BLE001 - of hostile files; the node must go on
            _failures.log("the models in %s cannot be listed: %r", model.place.top, error)
            model.work = max(model.work, INTERVAL)
        if model.work > _LIGHT:
            heavy = sum(row.work > _LIGHT for row in self._models.values())
            model.due = time.monotonic() + _PAUSE_PER_WORK * model.work * max(heavy, 1)

    async def _add(self, pod: ExportingPod) -> bool:
        """Begin to watch the directory of a pod; False to try again later."""
        try:
            found = await self._folders.locate(pod, model_directory(pod))
        except (ApiError, Unreachable) as error:
            log.warning("the models of pod %s are not listed: %s", pod.metadata.key, error)
            return False
        except MusterError as error:
            self._folders.report(pod, "ModelDirNotSeen", f"{MODEL_DIR}: {error}")
            return True
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, for example
            message = f"{model_directory(pod)[:200]}: {describe(error)}"
            self._folders.report(pod, "ModelDirNotSeen", message)
            return True
        if found is not None:
            self._watch(pod, Location(*found))
        return found is not None

    def _watch(self, pod: ExportingPod, place: Location) -> None:
        job = maker(pod)
        key = Key(pod.metadata.namespace, exported_models.config_map_name(job.kind, job.name))
        model = self._models.get(key)
        if model is None or model.place != place:
            model = self._models[key] = WatchedModel(key, place, Model())
        model.model = msgspec.structs.replace(
            model.model,
            name=model_name(pod),
            job=job,
            directory=model_directory(pod),
        )
        model.looks_left = LAST_LOOKS
        if not pod.finished:
            model.running.add(pod.metadata.uid)
        self._of_pod[pod.metadata.uid] = key

    async def _look(self, model: WatchedModel) -> None:
        """Look for new versions."""
        others = {
            stamp[:2]
            for other in self._models.values()
            if other is not model
            for stamp in other.last.stamps.values()
        }
        ended = not model.running
        is_hidden = _nowhere if model.place.is_of_pod else self._folders.is_hidden
        result = await asyncio.to_thread(_measured, model, others, is_hidden)
        if ended:
            model.looks_left = model.looks_left - 1 if result.unsettled else 0
        await self._take(model, result)

    async def _take(self, model: WatchedModel, result: Look) -> None:
        if result.listed(model.model) != model.last.listed(model.model):
            model.published = False
        model.last = result
        if not model.published:
            await self._publish(model)
        if not (result.versions or model.running or model.looks_left) and model.published:
            self._models.pop(model.key, None)

    async def _publish(self, model: WatchedModel) -> None:
        model.model = model.last.listed(model.model)
        body = exported_models.manifest(model.model, *model.key)
        try:
            if not model.model.versions:
                with contextlib.suppress(NotFound):
                    await self._client.delete(CONFIG_MAPS, model.key)
            else:
                try:
                    await self._client.patch(CONFIG_MAPS, model.key, body)
                except NotFound:
                    await self._client.create(CONFIG_MAPS, body)
        except MusterError as error:
            log.warning("the model %s is not published: %s", model.key, error)
            # A namespace that is being deleted takes no ConfigMap any more.
            model.published = not model.running and not model.looks_left
            return
        model.published = True


def _measured(
    model: WatchedModel, others: set[tuple[int, int]] | None, is_hidden: Callable[[str], bool]
) -> Look:
    """A look at new versions, or with None at those that are left."""
    started = time.thread_time()
    top, path, _ = model.place
    try:
        if others is None:
            return model_versions.remaining(top, path, model.last)
        return model_versions.look(top, path, model.last, model.model.job.uid, others, is_hidden)
    except OSError as error:  # not ours to read now: nothing is known, so nothing changes
        log.info("the models in %s cannot be read: %s", top, describe(error))
        return model.last
    except Exception as error:  # noqa: BLE001 - one hostile file of one job
        _failures.log("the models in %s cannot be read: %r", top, error)
        return model.last
    finally:
        model.work = time.thread_time() - started


def _nowhere(_: str) -> bool:
    return False


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


class Location(NamedTuple):
    """A directory of this machine: the volume's own, and the path below it."""

    top: str
    path: str
    is_of_pod: bool = False
    """Whether the volume is in the pod's folder, which other pods do not see."""


class ExportingPod(Protocol):
    """A pod of a node that lets us look at the files of its pods."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def finished(self) -> bool: ...


class PodFolders(Protocol):
    """The files of the pods of a node."""

    def subscribe(self, on_change: Callable[[Change[Any]], None], /) -> None:
        """Tell of every change of a pod."""

    async def locate(self, pod: Any, directory: str, /) -> tuple[str, str, bool] | None:
        """The Location of a directory of the pod; None if that is not known yet.

        An error that is not of a request says why it is nowhere.
        """

    def is_hidden(self, path: str, /) -> bool:
        """Whether pods must not see this path."""

    def report(self, pod: Any, reason: str, message: str, /) -> None:
        """Record a warning about the pod, once for all pods of its owner."""


def model_directory(pod: ExportingPod) -> str:
    """The directory that the pod's annotation names; empty without one."""
    return pod.metadata.annotations.get(MODEL_DIR, "")


def maker(pod: ExportingPod) -> Maker:
    """The job of the pod."""
    owner = pod.metadata.controller
    if owner is None:
        return Maker("v1", "Pod", pod.metadata.name, pod.metadata.uid)
    return Maker(owner.api_version, owner.kind, owner.name, owner.uid)


def model_name(pod: ExportingPod) -> str:
    return pod.metadata.labels.get(MODEL_NAME) or maker(pod).name
