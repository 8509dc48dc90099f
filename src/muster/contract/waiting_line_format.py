"""The published line: one row per waiting gang, and the held room, in the ConfigMap `muster-line`.

Commands read it and must start quickly: this module imports neither numpy nor asyncio. Invalid data
counts as an empty line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import decoder_of
from kubekit.objects.meta import in_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.core import Pod

CONFIG_MAP = "muster-line"
NAMESPACE = "kube-system"
DATA_KEY = "line"
HOLDS_KEY = "holds"
IN_LINE = "muster.dev/InLine"
"""The condition of one pod of a waiting gang; its message is the gang's place, as `2/7`."""
MAX_PLACE = 1_000_000
NOT_ENOUGH_MEMBERS = "NotEnoughMembers"
"""The code of a gang that waits for members that do not exist yet."""


class WaitingGang(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A gang that waits: its place (1 is the first), why, since when, and its members."""

    gang: str
    place: int
    code: str
    reason: str
    since: str
    dialect: str = ""
    priority: int = 0
    # The ConfigMap may come from an older release, so its keys never change.
    min_member: int = msgspec.field(name="least", default=1)
    bound: int = 0
    pending: int = 0
    held: int = 0
    short: dict[str, str] = {}
    """The resources that nodes have too little of, with the amounts that are missing."""

    def __str__(self) -> str:
        return f"{self.reason}; {ordinal(self.place)} in line"


class HeldRoom(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Room on one node that is held for members of one gang, and until when at most."""

    gang: str
    node: str
    until: str
    dialect: str = ""
    pods: int = 1
    requests: dict[str, str] = {}


class LinePlace(NamedTuple):
    """The place of a gang in line, 1 for the first and 0 for none, and how many are in line."""

    place: int = 0
    in_line: int = 0

    def __str__(self) -> str:
        return f"{self.place}/{self.in_line}"


def place_on(pods: Iterable[Pod]) -> LinePlace:
    """The last place that the scheduler wrote on one of the pods that wait for a node.

    Users who may not read the line see it there. It is up to half a minute old.
    """
    written = (
        (time, row.message)
        for pod in pods
        if not (pod.spec.node_name or pod.finished)
        for row in pod.status.conditions
        if row.type == IN_LINE and (time := in_utc(row.last_transition_time)) is not None
    )
    _, text = max(written, default=(None, ""))
    place, _, in_line = text.partition("/")
    return LinePlace(read_integer(place, MAX_PLACE) or 0, read_integer(in_line, MAX_PLACE) or 0)


def read(data: Mapping[str, str]) -> list[WaitingGang]:
    """The rows in a ConfigMap's data."""
    try:
        return decoder_of(list[WaitingGang]).decode(data.get(DATA_KEY, "[]"))
    except msgspec.MsgspecError:
        return []


def read_holds(data: Mapping[str, str]) -> list[HeldRoom]:
    """The held room in a ConfigMap's data; none if an older release has written it."""
    try:
        return decoder_of(list[HeldRoom]).decode(data.get(HOLDS_KEY, "[]"))
    except msgspec.MsgspecError:
        return []


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
