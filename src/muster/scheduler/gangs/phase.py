"""What the scheduler remembers of one gang beside its members.

Kept by `state`, read and changed by `decide` and what it calls. Lost on a restart, and nothing in
it that could not be found out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.holds import Hold


@dataclass
class GangRecord:
    """One gang's memory."""

    holds: dict[str, Hold] = field(default_factory=dict)
    waits_since: float | None = None
    reason: Reason | None = None
    reasoned_at: float = -1e9
    """When the numbers in its reason were last made sure of."""
    heard: frozenset[str] = frozenset()
    """Its members that waited when its reason was last said."""
    whole: bool | None = None
    """Whether it ever had its minimum bound; None until known, after a restart."""
    gave_up: bool = False
    """Its holds ran out: no more room is kept until it is whole again."""
    release_at: float | None = None
    not_before: float = 0.0
    failures: int = 0
    """Plans of which a bind failed, since it last had all its nodes."""
    failed_plan: str = ""
    refused: str = ""
    """What the server said to the last bind that failed."""
    releases: int = 0
    """How often it was released because of that."""
    half: bool = False
    """It has members running, lacks others and never was whole."""
    kept: bool = False
    """It is that, and its members cannot be deleted: nobody would make them anew."""
    victims: frozenset[str] = frozenset()
    """Pods being evicted for it: while they are there, no more are chosen."""
    going: frozenset[str] = frozenset()
    """Members that are being deleted because all of it goes: nothing is placed beside them."""
    stuck: dict[str, str] = field(default_factory=dict)
    """What the server said to deleting victims, or members that go, and they are still there."""
    preempts: bool = False
    """Its rooms were taken from others, before it had a member running."""
    told: bool = False
    """Its claims have been told what they get, and its rooms are kept until they are bound."""
    phase: tuple[int, ...] = ()
    """What its object's status last said: has members, is whole, and its counts."""
    hopeless: tuple[object, bool] = (None, False)
    """Whether it would not even fit an empty cluster, and what that was judged by."""
    guarded: bool = False
    """A timer runs that will look whether it starves."""
    succeeded: dict[str, str] = field(default_factory=dict)
    """Members that succeeded in this run, name to role, also after their objects are gone."""
    met: bool = False
    """It has been looked at since this process started."""
    recalled: int = 0
    """Members that succeeded before this process started and whose objects are gone."""
    done: int = 0
    """Members that succeeded in the run that is over, while no other has begun."""
    expects: list[float] = field(default_factory=list)
    """Until when replacements are expected, one time for each member that died."""
