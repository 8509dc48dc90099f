"""A pod's volumes, as the node reads them.

Volumes that this node cannot mount are read too, so that the pod's status can name them: an empty
directory in their place would look like the real volume, and files written to it would be lost.
"""

from __future__ import annotations

import msgspec

from kubekit.objects.core import PvcSource, Quantity  # noqa: TC001 - read when volumes are decoded
from kubekit.objects.meta import Object, Raw

Unsupported = Raw | None
"""The source of a volume that this node cannot mount."""


class FieldRef(Object, frozen=True):
    field_path: str = ""


class ResourceRef(Object, frozen=True):
    container_name: str = ""
    resource: str = ""
    divisor: Quantity = "0"


class KeyPath(Object, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class DownwardFile(Object, frozen=True):
    path: str = ""
    mode: int | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None


class EmptyDir(Object, frozen=True):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPath(Object, frozen=True):
    path: str = ""
    type: str = ""


class ObjectRef(Object, frozen=True):
    """A ConfigMap or Secret in the pod's namespace."""

    name: str = ""
    optional: bool = False

    @property
    def object_name(self) -> str:
        return self.name


class ConfigMapFiles(ObjectRef, frozen=True):
    items: tuple[KeyPath, ...] = ()
    default_mode: int = 0o644


class SecretFiles(ConfigMapFiles, frozen=True):
    """`secretName` names the Secret of a volume, `name` that of a projected source."""

    secret_name: str = ""

    @property
    def object_name(self) -> str:
        return self.secret_name or self.name


class DownwardFiles(Object, frozen=True):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class ServiceAccountToken(Object, frozen=True):
    """A file with a token of the pod's service account."""

    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class FileSource(Object, frozen=True):
    """The API objects and pod fields that a volume shows as files."""

    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = None


class ProjectedSource(FileSource, frozen=True):
    """One part of a projected volume."""

    service_account_token: ServiceAccountToken | None = None
    cluster_trust_bundle: Unsupported = None
    pod_certificate: Unsupported = None


class ProjectedFiles(Object, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int = 0o644


class Volume(FileSource, frozen=True):
    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    projected: ProjectedFiles | None = None
    persistent_volume_claim: PvcSource | None = None
    aws_elastic_block_store: Unsupported = None
    azure_disk: Unsupported = None
    azure_file: Unsupported = None
    cephfs: Unsupported = None
    cinder: Unsupported = None
    csi: Unsupported = None
    ephemeral: Unsupported = None
    fc: Unsupported = None
    flex_volume: Unsupported = None
    flocker: Unsupported = None
    gce_persistent_disk: Unsupported = None
    git_repo: Unsupported = None
    glusterfs: Unsupported = None
    image: Unsupported = None
    iscsi: Unsupported = None
    nfs: Unsupported = None
    photon_persistent_disk: Unsupported = None
    portworx_volume: Unsupported = None
    quobyte: Unsupported = None
    rbd: Unsupported = None
    scale_io: Unsupported = None
    storageos: Unsupported = None
    vsphere_volume: Unsupported = None

    @property
    def file_sources(self) -> tuple[FileSource, ...]:
        """The volume's own sources, and the parts of a projected volume."""
        return (self, *(self.projected.sources if self.projected is not None else ()))


def unsupported_kind(source: FileSource) -> str:
    """The name of an unsupported source in the volume; empty if there is none."""
    for field in msgspec.structs.fields(source):
        if field.type == Unsupported and getattr(source, field.name) is not None:
            return field.encode_name
    return ""
