"""A pod's volumes, as the node reads them.

Volumes that this node cannot mount are read too, so that the pod's status can name them: an empty
directory in their place would look like the real volume, and lose what is written to it.
"""

from __future__ import annotations

import msgspec

from muster.api.core import PvcSource, Quantity  # noqa: TC001 - read when volumes are decoded
from muster.api.meta import Object, Raw


class UnsupportedVolume(Object, frozen=True):
    aws_elastic_block_store: Raw | None = None
    azure_disk: Raw | None = None
    azure_file: Raw | None = None
    cephfs: Raw | None = None
    cinder: Raw | None = None
    csi: Raw | None = None
    ephemeral: Raw | None = None
    fc: Raw | None = None
    flex_volume: Raw | None = None
    flocker: Raw | None = None
    gce_persistent_disk: Raw | None = None
    git_repo: Raw | None = None
    glusterfs: Raw | None = None
    image: Raw | None = None
    iscsi: Raw | None = None
    nfs: Raw | None = None
    photon_persistent_disk: Raw | None = None
    portworx_volume: Raw | None = None
    quobyte: Raw | None = None
    rbd: Raw | None = None
    scale_io: Raw | None = None
    storageos: Raw | None = None
    vsphere_volume: Raw | None = None


class UnsupportedProjection(Object, frozen=True):
    cluster_trust_bundle: Raw | None = None
    pod_certificate: Raw | None = None


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


class ConfigMapFiles(Object, frozen=True):
    name: str = ""
    items: tuple[KeyPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretFiles(Object, frozen=True):
    secret_name: str = ""
    name: str = ""
    items: tuple[KeyPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardFiles(Object, frozen=True):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class ServiceAccountToken(Object, frozen=True):
    """A file with a token of the pod's service account."""

    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class ProjectedSource(UnsupportedProjection, frozen=True):
    """One part of a projected volume."""

    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = None
    service_account_token: ServiceAccountToken | None = None


class ProjectedFiles(Object, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int = 0o644


class Volume(UnsupportedVolume, frozen=True):
    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = None
    projected: ProjectedFiles | None = None
    persistent_volume_claim: PvcSource | None = None


def unsupported_kind(source: UnsupportedVolume | UnsupportedProjection) -> str:
    """The name of an unsupported source in the volume; empty if there is none."""
    base = UnsupportedVolume if isinstance(source, UnsupportedVolume) else UnsupportedProjection
    for field in msgspec.structs.fields(base):
        if getattr(source, field.name) is not None:
            return field.encode_name
    return ""
