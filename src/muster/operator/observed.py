"""What one decision looks at: the settings of the operator and the objects of one job.

Filled by `reconcile` from informers; by tests and `--dry-run` from nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.core import Pod, Service
    from muster.api.meta import Raw


class Settings(msgspec.Struct, frozen=True):
    """How this operator was started."""

    gang: bool = True
    dialect: str = "auto"
    scheduler: str = "muster"
    """The name filled in where pods of a gang have none."""
    domain: str = ""
    """Appended to service names in TF_CONFIG and the like, e.g. `cluster.local`."""
    delivery_image: str = ""
    """An image that carries kubectl, for MPI images without Python."""
    address: str = ""
    """Where pods have no network of their own: the one address that all of them share."""
    init_image: str = ""
    """An image with a shell and nslookup: PyTorch workers then wait in it for their master."""
    host_ports: range = range(20000, 30000)


class Observed(msgspec.Struct, frozen=True):
    """What exists of one job."""

    pods: tuple[Pod, ...] = ()
    """Controlled by the job."""
    orphans: tuple[Pod, ...] = ()
    """Labelled as the job's, controlled by nobody."""
    released: tuple[Pod, ...] = ()
    """Controlled by the job, but no longer labelled as its own."""
    of_former_job: tuple[Pod, ...] = ()
    """Of an earlier job of this name, which are not gone yet."""
    services: tuple[Service, ...] = ()
    objects: Mapping[tuple[str, str], Raw] = {}
    """Other objects the job owns, whole, by resource (`configmaps`) and name."""
    served_dialects: frozenset[str] = frozenset()
    """Resources of gang dialects that this cluster serves (`podgroups.scheduling.volcano.sh`)."""
    ports: frozenset[int] = frozenset()
    """Host ports that others use or were promised."""
    quota_refusal: str = ""
    """Why pods may not be created at present: a quota is exhausted."""
    blocked: Raw = {}
    """Reason and message why an object could not be made when it was tried last."""
    priorities: Mapping[str, int] = {}
    """Values of priority classes."""
