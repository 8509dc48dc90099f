"""The flags of the operator that decisions depend on."""

from __future__ import annotations

import msgspec

QUOTA_PAUSE = 15.0
"""Seconds without new pods of a job after a quota refused one."""


class Settings(msgspec.Struct, frozen=True):
    gang: bool = True
    """Whether a job is a gang when its annotations do not say."""
    dialect: str = "auto"
    """The gang dialect of jobs that name none; `auto`: chosen by scheduler and installed CRDs."""
    scheduler: str = "muster"
    """The scheduler for pods of a gang that name none."""
    domain: str = ""
    """Appended to service names in TF_CONFIG and the like, e.g. `cluster.local`."""
    delivery_image: str = ""
    """An image that carries kubectl, for MPI images without Python."""
    address: str = ""
    """The address that all pods share, where pods have no network of their own."""
    init_image: str = ""
    """An image with a shell and nslookup, in which PyTorch workers wait for their master."""
    host_ports: range = range(20000, 30000)
    """Ports for replicas on the host's network: below the node ports of services (from 30000) and
    the ephemeral ports of Linux (from 32768)."""
