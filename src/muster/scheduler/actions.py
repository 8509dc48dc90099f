"""What a decision asks of the world: bind these, delete those, say this.

Made by `decide`, carried out by the loop. Plain data, so that a test can compare whole decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.api.meta import Key
    from muster.scheduler.explain import Reason
    from muster.scheduler.gangs import GangKey
    from muster.scheduler.volumes import Choice

PLAN_ANNOTATION = "muster.dev/plan"


@dataclass(frozen=True)
class Bind:
    """Give each pod its node, all of them now.

    `size` members make the gang whole, 0 if it has been that already; `spare` members were there
    beyond them. After a restart they tell a half-bound gang from one that lost a member.
    """

    gang: GangKey
    plan: str
    pairs: tuple[tuple[Pod, str], ...]
    size: int
    spare: int = 0
    at: float = 0.0
    """When it was decided."""
    mends: bool = False
    """Whether the gang had members running and lacked others."""

    @property
    def annotation(self) -> str:
        """Plan, size and spare: what the pods of this plan are marked with."""
        return f"{self.plan}/{self.size}" + (f"+{self.spare}" if self.spare else "")


def planned(annotation: str) -> tuple[int, int]:
    """The size and the spare in a plan's annotation."""
    size, _, spare = annotation.rpartition("/")[2].partition("+")
    return (int(size) if size.isdecimal() else 0, int(spare) if spare.isdecimal() else 0)


@dataclass(frozen=True)
class Delete:
    """Delete pods that have a node, so that a gang can start again or another can take the room."""

    gang: GangKey
    pods: tuple[Pod, ...]
    why: str
    reason: str
    """`Released` or `Preempted`: the event's reason."""


@dataclass(frozen=True)
class Say:
    """Tell a gang's pods, group object and reader why it waits, or (None) that it does not."""

    gang: GangKey
    reason: Reason | None


@dataclass(frozen=True)
class Provision:
    """Tell claims the node of the pod that they wait for, or give them a volume that exists."""

    gang: GangKey
    claims: tuple[tuple[Key, Choice], ...]


Action = Bind | Delete | Say | Provision
