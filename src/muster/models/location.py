"""What a pod says about the model that it exports, and where its directory is on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from muster.contract.exported_models import MODEL_DIR, MODEL_NAME, Maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.objects.meta import ObjectMeta


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


class PodChange(Protocol):
    @property
    def new(self) -> ExportingPod | None: ...
    @property
    def current(self) -> ExportingPod: ...


class PodFolders(Protocol):
    """The files of the pods of a node."""

    def subscribe(self, on_change: Callable[[PodChange], None], /) -> None:
        """Tell of every change of a pod."""

    async def locate(self, pod: Any, directory: str, /) -> tuple[str, str, bool] | None:
        """The Location of a directory of the pod; None if that is not known yet."""

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
