"""How this operator was started: the part of its flags that decisions depend on."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True):
    gang: bool = True
    """Whether jobs are gangs unless they say otherwise."""
    dialect: str = "auto"
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
