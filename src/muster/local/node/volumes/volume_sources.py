"""Kinds of volumes that live elsewhere and that this node cannot mount.

Read with a pod's volumes (`spec.Volume`) only so that the pod can be told which one is not here: a
directory in its place would look like the real one, and lose what is written to it.
"""

from __future__ import annotations

import msgspec

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
    scale_io: Raw | None = msgspec.field(default=None, name="scaleIO")
    storageos: Raw | None = None
    vsphere_volume: Raw | None = None


class UnsupportedProjection(Object, frozen=True):
    cluster_trust_bundle: Raw | None = None
    pod_certificate: Raw | None = None


def unsupported_kind(source: UnsupportedVolume | UnsupportedProjection) -> str:
    """What the source is called if it is one of these, else nothing."""
    here = UnsupportedVolume if isinstance(source, UnsupportedVolume) else UnsupportedProjection
    for field in msgspec.structs.fields(here):
        if getattr(source, field.name) is not None:
            return field.encode_name
    return ""
