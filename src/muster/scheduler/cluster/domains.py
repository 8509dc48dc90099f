"""The nodes divided into topology domains: by node labels, or by Volcano's HyperNodes.

A division gives every node a code, as a label column does, so that the room of all domains is
one `bincount`. HyperNodes of one tier may overlap, because members can be selected by patterns:
then the tier has several divisions, in each of which no node is in two HyperNodes.

Divisions are computed when a gang needs them, and kept until a node or a HyperNode changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kubekit.objects.selectors import InvalidSelector, from_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from kubekit.objects.affinity import LabelSelector
    from muster.contract.pod_groups import HyperNode, MemberSelector
    from muster.scheduler.cluster.nodes import Codes, Mask, NodeTable

MAX_DIVISIONS = 256
"""Divisions by labels that are kept: gangs may name any labels."""
NODE, HYPER_NODE = "Node", "HyperNode"
"""The types of members of a HyperNode."""


@dataclass(frozen=True)
class Division:
    """`names[codes[row]]` is the domain of a row; code 0 means none."""

    names: list[str]
    codes: Codes
    ranks: Codes
    """The place of each domain in the order of names."""


def _division(names: Iterable[str], codes: Codes) -> Division:
    listed = list(names)
    ranks = np.empty(len(listed), np.int32)
    ranks[sorted(range(len(listed)), key=lambda code: listed[code])] = np.arange(len(listed))
    return Division(listed, codes, ranks)


class _Members(NamedTuple):
    """The members of one HyperNode: rows of nodes, and names of other HyperNodes."""

    rows: NDArray[np.intp]
    inner: set[str]


class NodeDomains:
    """The HyperNodes, and every division of the nodes that a gang asked for."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._hyper_nodes: dict[str, HyperNode] = {}
        self.version = 0
        """Grows when a HyperNode changes."""
        self._stamp: object = None
        self._by_labels: dict[tuple[str, ...], Division] = {}
        self._by_tier: dict[int, tuple[Division, ...]] = {}
        self._members: dict[str, _Members] = {}
        self._patterns: dict[tuple[str, ...], _Patterns] = {}

    def put_hyper_node(self, name: str, hyper_node: HyperNode | None) -> bool:
        """Take over a HyperNode, None if it was deleted; whether that changes a domain."""
        before = self._hyper_nodes.pop(name, None)
        if hyper_node is not None:
            self._hyper_nodes[name] = hyper_node
        if (before and before.spec) == (hyper_node and hyper_node.spec):
            return False
        self.version += 1
        if before is not None:
            for type_ in (NODE, HYPER_NODE):
                self._patterns.pop(_patterns_of(before, type_), None)
        return True

    def by_labels(self, labels: tuple[str, ...]) -> Division:
        """The nodes by the combination of their labels; nodes that lack one are in no domain."""
        self._refresh()
        division = self._by_labels.get(labels)
        if division is None:
            if len(self._by_labels) >= MAX_DIVISIONS:
                self._by_labels.clear()
            division = self._by_labels[labels] = self._combine(labels)
        return division

    def tiers(self) -> list[int]:
        """The tiers of the HyperNodes, the lowest first."""
        return sorted({hyper_node.spec.tier for hyper_node in self._hyper_nodes.values()})

    def tier_names(self) -> list[str]:
        """The names that HyperNodes give to their tiers, sorted."""
        names = {hyper_node.spec.tier_name for hyper_node in self._hyper_nodes.values()}
        return sorted(names - {""})

    def tier_named(self, name: str) -> int | None:
        """The tier that HyperNodes call so; the highest if they differ, None if there is none."""
        specs = (hyper_node.spec for hyper_node in self._hyper_nodes.values())
        return max((spec.tier for spec in specs if spec.tier_name == name), default=None)

    def by_tier(self, tier: int) -> tuple[Division, ...]:
        """The nodes by their HyperNode of a tier; one division unless HyperNodes overlap."""
        self._refresh()
        if tier not in self._by_tier:
            self._by_tier[tier] = tuple(self._divide(tier))
        return self._by_tier[tier]

    def intersect(self, division: Division, other: Division) -> Division:
        """The nodes by the combination of two divisions."""
        pairs = division.codes.astype(np.int64) * len(other.names) + other.codes
        pairs[(division.codes == 0) | (other.codes == 0)] = 0
        values, codes = np.unique(np.append(pairs, 0), return_inverse=True)
        size = len(other.names)
        names = [f"{division.names[v // size]}/{other.names[v % size]}" for v in values[1:]]
        return _division(["", *names], codes[:-1].astype(np.int32))

    # -- inside --------------------------------------------------------------------------------

    def _refresh(self) -> None:
        stamp = (*self._nodes.stamp, self.version)
        if stamp != self._stamp:
            self._stamp, self._by_labels, self._by_tier, self._members = stamp, {}, {}, {}

    def _combine(self, labels: tuple[str, ...]) -> Division:
        column = self._nodes.column(labels[-1])
        # A column keeps values that no node has any more: they are not domains.
        present = np.unique(np.append(column.codes, 0))
        values = (column.values[code] for code in present)
        names = ("" if value is None else value or '""' for value in values)
        division = _division(names, np.searchsorted(present, column.codes).astype(np.int32))
        return (
            division if len(labels) == 1 else self.intersect(self.by_labels(labels[:-1]), division)
        )

    def _divide(self, tier: int) -> list[Division]:
        layers: list[tuple[list[str], Codes]] = []
        of_tier = (name for name, row in self._hyper_nodes.items() if row.spec.tier == tier)
        for name in sorted(of_tier):
            mask = self._mask(name)
            if not mask.any():
                continue
            layer = next((row for row in layers if not row[1][mask].any()), None)
            if layer is None:
                layer = ([""], np.zeros(len(self._nodes), np.int32))
                layers.append(layer)
            names, codes = layer
            codes[mask] = len(names)
            names.append(name)
        return [_division(names, codes) for names, codes in layers]

    def _mask(self, name: str) -> Mask:
        """The nodes of a HyperNode and of all HyperNodes in it."""
        mask = np.zeros(len(self._nodes), np.bool_)
        # Each HyperNode is visited once, without recursion: patterns may make every HyperNode a
        # member of every other, and then the paths between them are beyond counting.
        names, seen = [name], {name}
        while names:
            members = self._members_of(names.pop())
            mask[members.rows] = True
            more = members.inner - seen
            names += more
            seen |= more
        return mask

    def _members_of(self, name: str) -> _Members:
        members = self._members.get(name)
        if members is None:
            hyper_node = self._hyper_nodes[name]
            mask = np.zeros(len(self._nodes), np.bool_)
            mask[self._nodes.rows_of(self._named(hyper_node, NODE, self._nodes.names))] = True
            for selector in _selectors(hyper_node, NODE):
                if selector.label_match is not None:
                    mask |= self._with_labels(selector.label_match)
            inner = self._named(hyper_node, HYPER_NODE, self._hyper_nodes)
            rows = np.flatnonzero(mask)
            members = self._members[name] = _Members(rows, inner & self._hyper_nodes.keys())
        return members

    def _named(self, hyper_node: HyperNode, type_: str, known: Iterable[str]) -> set[str]:
        """The members of one type that a HyperNode selects by their names."""
        exact = (row.exact_match for row in _selectors(hyper_node, type_))
        names = {row.name for row in exact if row is not None}
        texts = _patterns_of(hyper_node, type_)
        if not texts:
            return names
        patterns = self._patterns.get(texts)
        if patterns is None:
            patterns = self._patterns[texts] = _Patterns(texts)
        return names | patterns.select(known)

    def _with_labels(self, selector: LabelSelector) -> Mask:
        mask = np.ones(len(self._nodes), np.bool_)
        try:
            requirements = from_labels(selector).requirements
        except InvalidSelector:
            requirements = ()
        for requirement in requirements:
            column, test = self._nodes.column(requirement.key), requirement.compiled()
            # Thousands of nodes share a few values: each value is tested once.
            passes = [
                test({} if value is None else {requirement.key: value}) for value in column.values
            ]
            mask &= np.array(passes, np.bool_)[column.codes]
        return mask if requirements else ~mask  # as in Volcano, an empty selector selects nothing


def _selectors(hyper_node: HyperNode, type_: str) -> list[MemberSelector]:
    return [member.selector for member in hyper_node.spec.members if member.type == type_]


def _patterns_of(hyper_node: HyperNode, type_: str) -> tuple[str, ...]:
    matches = (row.regex_match for row in _selectors(hyper_node, type_))
    return tuple(match.pattern for match in matches if match is not None)


class _Patterns:
    """The regular expressions of a HyperNode, in the syntax of RE2 as in Volcano.

    They are joined into one, because a HyperNode may have thousands of them. The answers about the
    names of the last call are kept, because names of nodes rarely change.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._answers: dict[str, bool] = {}
        self._patterns = _joined([text for text in dict.fromkeys(texts) if _compiled(text)])

    def select(self, names: Iterable[str]) -> set[str]:
        """The names of which one of the patterns matches a part."""
        before = self._answers
        self._answers = {
            name: before[name] if name in before else self._matches(name) for name in names
        }
        return {name for name, answer in self._answers.items() if answer}

    def _matches(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self._patterns)


def _joined(texts: Sequence[str]) -> list[Any]:
    """As few patterns as possible that match the same names as these valid ones."""
    quoted = any(r"\Q" in text for text in texts)  # the quotation may go on in the next pattern
    pattern = None if quoted else _compiled("|".join(f"(?:{text})" for text in texts))
    if len(texts) <= 1 or pattern is not None:
        return [pattern or _compiled(text) for text in texts[:1]]
    # Together they are too large, or use one name for two groups.
    half = len(texts) // 2
    return [*_joined(texts[:half]), *_joined(texts[half:])]


def _compiled(text: str) -> Any | None:
    """A pattern; None if it is invalid: then it matches no name."""
    import re2  # only clusters with such HyperNodes need it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        return None
