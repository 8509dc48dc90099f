"""Which job an object of the Python API stands for, for programs with asyncio and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubekit.objects.meta import Key


class JobIdentity:
    """The kind, namespace, name and UID of a job. Objects for the same job are equal."""

    def __init__(self, kind: str, key: Key, uid: str) -> None:
        self._kind, self._key, self._uid = kind, key, uid

    @property
    def name(self) -> str:
        """The name of the job."""
        return self._key.name

    @property
    def namespace(self) -> str:
        """The namespace of the job."""
        return self._key.namespace

    @property
    def kind(self) -> str:
        """`PyTorchJob`, `TFJob`, `MPIJob` or `JAXJob`."""
        return self._kind

    @property
    def uid(self) -> str:
        """The UID that the cluster gave to the job."""
        return self._uid

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[str, Key, str]:
        return self._kind, self._key, self._uid
