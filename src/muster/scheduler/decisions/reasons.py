"""Why a gang waits, in words a person can act on. Pure.

The same sentence goes to pod conditions, events, group status and `muster explain`. These are
objects of one namespace, whose readers need not know the jobs of others: it names none of them. The
published line, for administrators, has the sentence with all names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.quantity import format_amount
from muster.contract import waiting_line_format
from muster.contract.gang import TOPOLOGY_ANNOTATION
from muster.contract.gang_dialects import DIALECT_BY_NAME
from muster.scheduler.cluster.pod_class import PODS
from muster.scheduler.placement.filters import FULL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubekit.objects.meta import Key
    from muster.contract.gang import GangKey, GangTerms, Topology
    from muster.scheduler.cluster.snapshot import Hold
    from muster.scheduler.gangs.members import Members
    from muster.scheduler.placement.demand import ClassShortage, DomainShortage, Unplaced


@dataclass(frozen=True)
class Reason:
    """A reason code (one word, stable, counted in metrics) and a sentence."""

    code: str
    text: str
    short: tuple[tuple[str, int], ...] = ()
    """The resources that nodes have too little of, with the amounts that are missing."""
    full: str = ""
    """The sentence with the names of other namespaces' objects; empty if it is the same."""

    def __post_init__(self) -> None:
        for field in ("text", "full"):  # roles and resources have the names that strangers give
            if len(text := getattr(self, field)) > MAX_TEXT:
                object.__setattr__(self, field, f"{text[:MAX_TEXT]}…")

    @property
    def for_administrator(self) -> str:
        return self.full or self.text

    @property
    def for_namespace(self) -> Reason:
        """The reason without names of other namespaces' objects."""
        return replace(self, full="") if self.full else self

    def and_also(self, text: str, full: str = "") -> Reason:
        """The reason with another sentence."""
        long = f"{self.for_administrator}; {full or text}"
        text = f"{self.text}; {text}"
        return replace(self, text=text, full=long if long != text else "")


class Reader(NamedTuple):
    """Who reads a sentence: users of one namespace, or (`sees_all`) of the whole cluster."""

    namespace: str
    sees_all: bool = False

    def knows(self, key: GangKey | Key) -> bool:
        return self.sees_all or key.namespace == self.namespace

    def name_of(self, gang: GangKey) -> str:
        return str(gang) if self.knows(gang) else "a job of another namespace"


ADMINISTRATOR = Reader("", sees_all=True)


MAX_TEXT = 2000
"""Characters of a sentence: it is written to every pod of the gang."""
MAX_NAMED_GANGS = 3
"""Gangs for which room is held, or budgets, that a reason names."""
MAX_NAMED_NODES = 8
"""Nodes with room that is kept for a gang, which its reason names."""
NOT_ENOUGH_MEMBERS = waiting_line_format.NOT_ENOUGH_MEMBERS
NO_SUCH_GROUP = "NoSuchGroup"
NOT_ENOUGH_ROOM = "NotEnoughRoom"
FITS_NOWHERE = "FitsNowhere"
NOT_TOGETHER = "DoesNotFitTogether"
UNSUPPORTED = "Unsupported"
BIND_FAILED = "BindFailed"
PREEMPTING = "Preempting"
PROVISIONING = "Provisioning"
NO_VOLUME = "NoVolume"
LEAVING = "Leaving"
INTERNAL = "Internal"
ENDED_BY_OWN_CHANGE = frozenset({NOT_ENOUGH_MEMBERS, NO_SUCH_GROUP, UNSUPPORTED, LEAVING})
"""Reasons that only a change of the gang's own objects can end: no other event must wake it."""
CANNOT_DELETE = "partly running; not deleted, because no controller would recreate its pods"
HOLDS_ENDED = "the room held for its missing members has run out"
DELETION_UNDER_WAY = "its gang was being deleted"
RESOURCE_CLAIMS_UNSUPPORTED = "uses resourceClaims, which are not supported"


def no_group(key: GangKey) -> Reason:
    """The pods name a group that does not exist."""
    kinds = " or ".join(kind.resource for kind in DIALECT_BY_NAME[key.dialect].kinds)
    return Reason(NO_SUCH_GROUP, f"waits for {key.name} to be created: there is no such {kinds}")


def too_few(terms: GangTerms, members: Members, roles: dict[str, int]) -> Reason:
    """Some members do not exist yet: so many of each role."""
    existing = len(members.bound) + len(members.succeeded) + len(members.pending)
    text = f"{existing} of {terms.min} members exist"
    lacking = [f"{n} more {_many(role or 'member', n)}" for role, n in sorted(roles.items())]
    if lacking:
        text += f"; needs {' and '.join(lacking)}"
    if members.gated:
        text += f"; {members.gated} held back by scheduling gates"
    if members.foreign:
        text += f"; {members.foreign} addressed to another scheduler and not bound yet"
    return Reason(NOT_ENOUGH_MEMBERS, text)


def min_resources(lacks: Mapping[str, int]) -> Reason:
    """The group's minResources are not free on all nodes together."""
    text = f"the group's minResources are not free: {lacking(dict(sorted(lacks.items())))}"
    return Reason(NOT_ENOUGH_ROOM, text, tuple(sorted(lacks.items())))


def unserved(field: str) -> Reason:
    """The group sets a required field that Muster does not serve."""
    return Reason(UNSUPPORTED, f"{field}, which is not supported")


def invalid_topology(problem: str) -> Reason:
    """The annotation that requires a topology names no labels."""
    return Reason(UNSUPPORTED, f"{TOPOLOGY_ANNOTATION} is invalid: {problem}")


def unplaced(result: Unplaced, nodes: int) -> Reason:
    """All members exist and do not fit; `nodes` is how many nodes there are."""
    lacks: Counter[str] = Counter()
    for short in result.short:
        lacks.update(short.lacks)
    return replace(_unplaced(result, nodes), short=tuple(sorted(lacks.items())))


def _unplaced(result: Unplaced, nodes: int) -> Reason:
    if nodes == 0:
        return Reason(FITS_NOWHERE, "there are no nodes")
    if result.domain is not None:
        return _no_domain(result, result.domain)
    if not result.short:
        return Reason(NOT_ENOUGH_ROOM, "does not fit")
    if not result.alone:
        parts = [*map(_not_together, result.short), _beyond_capacity(result)]
        return Reason(NOT_TOGETHER, "; ".join(filter(None, parts)))
    code = NOT_ENOUGH_ROOM if all(short.ever for short in result.short) else FITS_NOWHERE
    return Reason(code, "; ".join(map(_shortage, result.short)))


def unplaceable(pod: str, problem: str, others: int) -> Reason:
    """No node could run this pod, nor so many others; a pod without a gang is not named."""
    code = UNSUPPORTED if problem == RESOURCE_CLAIMS_UNSUPPORTED else NO_VOLUME
    text = f"{pod}: {problem}" if pod else problem
    return Reason(code, f"{text}; and {others} more" if others else text)


def preempting(failed: Sequence[str]) -> Reason:
    """Pods of lower priority are being deleted; `failed`: why some could not be."""
    return Reason(PREEMPTING, f"waits for pods of lower priority to leave{_failed(failed)}")


def leaving(failed: Sequence[str]) -> Reason:
    """The whole gang is being deleted; `failed`: why some members could not be."""
    return Reason(LEAVING, f"waits for members that are being deleted{_failed(failed)}")


def _failed(texts: Sequence[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"; {texts[0]}{more}" if texts else ""


def not_deleted(pod: Key, why: str, reader: Reader) -> str:
    """Why a pod could not be deleted."""
    if not reader.knows(pod):
        return "a pod of another namespace could not be deleted"
    return f"{pod.name} could not be deleted: {why}"


def half_bound(why: str) -> str:
    """Why the bound members of a gang are deleted."""
    return f"half-bound and cannot be made whole: {why}"


def provisioning(claims: int) -> Reason:
    """So many claims have no volume yet."""
    what = "a volume" if claims == 1 else f"{claims} volumes"
    return Reason(PROVISIONING, f"waits for {what} to be bound to its claims")


def bind_failed(why: str) -> Reason:
    """The API server refused the last binds."""
    return Reason(BIND_FAILED, why)


def internal_error(error: Exception) -> Reason:
    """A bug. The kind of error and no more: its text may hold what others wrote."""
    text = f"an error in the scheduler itself ({type(error).__name__}); it is tried again"
    return Reason(INTERNAL, text)


def with_holds(
    reason: Reason, held: Mapping[GangKey, Sequence[Hold]], wall_offset: float, reader: Reader
) -> Reason:
    """A reason, with the gangs for which helpful room is held, and until when."""
    for key, holds in islice(held.items(), MAX_NAMED_GANGS):
        until = datetime.fromtimestamp(max(hold.until for hold in holds) + wall_offset, UTC)
        pods = "1 pod" if len(holds) == 1 else f"{len(holds)} pods"
        text, full = (
            f"room for {pods} is held for {one.name_of(key)} until {until:%H:%M:%SZ}"
            for one in (reader, ADMINISTRATOR)
        )
        reason = reason.and_also(text, full)
    if len(held) > MAX_NAMED_GANGS:
        reason = reason.and_also(f"more is held for {len(held) - MAX_NAMED_GANGS} other gangs")
    return reason


def with_kept_room(reason: Reason, nodes: int, gang: GangKey, reader: Reader) -> Reason:
    """A reason, with the number of nodes on which room is kept for a starving gang."""
    text, full = (
        f"room on {nodes} {_many('node', nodes)} is kept for {one.name_of(gang)}, which has "
        "waited too long; only a higher priority goes before it"
        for one in (reader, ADMINISTRATOR)
    )
    return reason.and_also(text, full)


def with_own_room(reason: Reason, nodes: Sequence[str]) -> Reason:
    """The reason of a starving gang, with the nodes on which room is kept for it."""
    names, more = ", ".join(nodes[:MAX_NAMED_NODES]), len(nodes) - MAX_NAMED_NODES
    names += f" and {more} more" if more > 0 else ""
    where = f"{len(nodes)} {_many('node', len(nodes))}"
    return reason.and_also(f"has waited too long: room on {where} is kept for it ({names})")


def with_budgets(reason: Reason, budgets: Sequence[Key], reader: Reader) -> Reason:
    """A reason, with the disruption budgets that alone prevent an eviction that would help."""
    text, full = (
        f"it would fit in place of pods of lower priority, but {_budgets(budgets, one)} them"
        for one in (reader, ADMINISTRATOR)
    )
    return reason.and_also(text, full)


def _budgets(budgets: Sequence[Key], reader: Reader) -> str:
    """`the budget team/x protects`."""
    known = [key for key in budgets if reader.knows(key)]
    verb, n = "protects" if len(budgets) == 1 else "protect", len(budgets) - len(known)
    others = "a budget of another namespace" if n == 1 else f"{n} budgets of other namespaces"
    if not known:
        return f"{others} {verb}"
    names, more = ", ".join(map(str, known[:MAX_NAMED_GANGS])), len(known) - MAX_NAMED_GANGS
    names += f" and {more} more" if more > 0 else ""
    subject = f"the budget{'s' * (len(known) > 1)} {names}"
    return f"{subject} and {others} {verb}" if n else f"{subject} {verb}"


def _not_together(short: ClassShortage) -> str:
    verb = "does" if short.wanted == 1 else "do"
    text = f"every role fits alone; {_members(short)} {verb} not fit next to the rest"
    if short.fits:
        text += f", only {short.fits} of them"
    return f"{text}: {lacking(short.lacks)}" if short.lacks else text


def _beyond_capacity(result: Unplaced) -> str:
    """That waiting does not help: the nodes have too little for all roles together."""
    lacks = [
        f"all roles together request {format_amount(name, requested)} {name}, "
        f"the nodes have {format_amount(name, capacity)}"
        for name, (requested, capacity) in result.beyond.items()
    ]
    return f"cannot start unless nodes are added: {'; '.join(lacks)}" if lacks else ""


def _no_domain(result: Unplaced, domain: DomainShortage) -> Reason:
    """No single domain holds the gang."""
    level = _level(domain.topology)
    text = f"needs one {level}: "
    if domain.best and result.short:
        rooms = " and ".join(f"{short.fits} of {_members(short)}" for short in result.short)
        text += f"its members run in {domain.best}, which" if domain.members_in else domain.best
        if result.alone:
            details = [_lacks(short) for short in result.short]
            text = "; ".join(filter(None, [f"{text} has room for {rooms}", *details]))
        else:
            text += "; ".join(f" is too small: {_not_together(short)}" for short in result.short)
    elif domain.best:
        text += f"{domain.best} is too small"
    elif domain.members_in:
        text += _scattered(domain)
    else:
        text += _no_such_domain(domain)
    if domain.largest is not None:
        name, most = domain.largest
        text += f"; cannot start unless nodes are added: the largest, {name}, would hold {most}"
    fits = all(short.ever for short in result.short) and (domain.best or domain.members_in)
    return Reason(NOT_ENOUGH_ROOM if fits else FITS_NOWHERE, text)


def _level(topology: Topology) -> str:
    """`rack`, `HyperNode of tier 2 or lower`: the name of one domain."""
    words = []
    tiers = topology.tiers
    if tiers is not None and tiers.required:
        highest = tiers.highest_name or ("" if tiers.highest is None else str(tiers.highest))
        words.append(f"HyperNode of tier {highest} or lower" if highest else "HyperNode")
    words += [label.rpartition("/")[2] for label in topology.required[-1:]]
    return " and one ".join(words)


def _scattered(domain: DomainShortage) -> str:
    """Members run in several domains, or outside of any, so no member can join them."""
    names = [name for name in domain.members_in if name is not None]
    if None not in domain.members_in:
        several = f"{', '.join(names[:-1])} and {names[-1]}"
        return f"its members run in {several}; no member joins them until all are restarted"
    outside = "on nodes that are gone or in none"
    return (
        f"its members run in {', '.join(names)} and {outside}"
        if names
        else (f"its members run {outside}")
    )


def _no_such_domain(domain: DomainShortage) -> str:
    """No node has the labels, or no HyperNode has nodes."""
    if domain.missing_labels:
        labels, similar = zip(*domain.missing_labels, strict=True)
        text = f"no node has the label{'s' * (len(labels) > 1)} {' and '.join(labels)}"
        names = " and ".join(filter(None, similar))
        return f"{text}; the most similar is {names}" if names else text
    if domain.missing_tier is not None:
        name, similar_name = domain.missing_tier
        text = f"no HyperNode has the tierName {name}"
        return f"{text}; the most similar is {similar_name}" if similar_name else text
    tiers = domain.topology.tiers
    if domain.topology.required and (tiers is None or not tiers.required):
        return f"no node has all of the labels {' and '.join(domain.topology.required)}"
    return "none of them has nodes"


def _shortage(short: ClassShortage) -> str:
    parts = [f"{short.fits} of {_members(short)} fit"]
    if short.wanted == 1:  # often a pod without a gang
        parts = [f"no node has room for the {short.want.role or 'pod'}"] if short.ever else []
    return "; ".join(filter(None, [*parts, _lacks(short)]))


def _lacks(short: ClassShortage) -> str:
    """What a class lacks, and which nodes are ruled out; empty if neither is known."""
    parts = []
    if short.lacks and short.ever:
        parts.append(lacking(short.lacks))
    if not short.ever:
        parts.append(_too_large(short))
    if short.most is not None:
        parts.append(_too_many(short))
    if short.removed:
        (says, n), *rest = ((_counting_placed(short, says), n) for says, n in short.removed)
        first = f"{n} node{'s' * (n != 1)} {says}"
        parts.append(", ".join([first, *(f"{n} {says}" for says, n in rest)]))
    return "; ".join(parts)


def _counting_placed(short: ClassShortage, says: str) -> str:
    """The words of a filter; nodes are full when the part that fits is placed, not before."""
    if says != FULL or not short.fits:
        return says
    return f"{says} with {'it' if short.fits == 1 else 'them'}"


def _too_large(short: ClassShortage) -> str:
    requests, role = short.want.cls.requests, short.want.role or "pod"
    each = {name: n for name, n in requests.items() if name != PODS}
    if not short.largest:  # nodes are ruled out by other reasons than their size
        return "no node is suitable"
    lacks = (
        f"each {role} requests {format_amount(name, each[name])} {name}, "
        f"the largest node has {format_amount(name, n)}"
        for name, n in short.largest.items()
    )
    return f"no node is large enough: {'; '.join(lacks)}"


def _too_many(short: ClassShortage) -> str:
    """That waiting does not help: the nodes are too few, or too small for more than one each."""
    requested = {name: n * short.wanted for name, n in short.want.cls.requests.items()}
    lacks = (
        f"{_members(short)} request {format_amount(name, requested[name])} {name}, "
        f"the nodes have {format_amount(name, n)}"
        for name, n in short.capacity.items()
    )
    empty = f"{short.most} would fit if all nodes were empty"
    return f"cannot start unless nodes are added: {'; '.join(lacks) or empty}"


def lacking(resources: Mapping[str, int]) -> str:
    """`short 2 nvidia.com/gpu, 1 cpu`: what the nodes lack."""
    amounts = [f"{format_amount(name, n)} {name}" for name, n in resources.items()]
    return f"short {', '.join(amounts)}"


def _members(short: ClassShortage) -> str:
    return f"{short.wanted} {_many(short.want.role or 'pod', short.wanted)}"


def _many(noun: str, n: int) -> str:
    return noun if n == 1 or noun.endswith("s") else f"{noun}s"
