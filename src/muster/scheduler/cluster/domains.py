"""The nodes divided into topology domains: by node labels, or by Volcano's HyperNodes.

A division gives every node a code, as a label column does, so that the room of all domains is
one `bincount`. HyperNodes of one tier may overlap, because members can be selected by patterns:
then the tier has several divisions, in each of which no node is in two HyperNodes.

Divisions are computed when a gang needs them, and kept until a node or a HyperNode changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from muster.api.selectors import from_labels
from muster.errors import InvalidSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.affinity import LabelSelector
    from muster.api.pod_groups import HyperNode, HyperNodeMember
    from muster.scheduler.cluster.nodes import Codes, Mask, NodeTable


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
        self._matches: dict[str, _Pattern] = {}

    def put_hyper_node(self, name: str, hyper_node: HyperNode | None) -> bool:
        """Take over a HyperNode, None if it was deleted; whether that changes a domain."""
        before = self._hyper_nodes.pop(name, None)
        if hyper_node is not None:
            self._hyper_nodes[name] = hyper_node
        if (before and before.spec) == (hyper_node and hyper_node.spec):
            return False
        self.version += 1
        self._matches.clear()  # patterns that no HyperNode has any more
        return True

    def by_labels(self, labels: tuple[str, ...]) -> Division:
        """The nodes by the combination of their labels; nodes that lack one are in no domain."""
        self._refresh()
        division = self._by_labels.get(labels)
        if division is None:
            division = self._by_labels[labels] = self._combine(labels)
        return division

    def tiers(self) -> list[int]:
        """The tiers of the HyperNodes, the lowest first."""
        return sorted({hyper_node.spec.tier for hyper_node in self._hyper_nodes.values()})

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
            self._stamp, self._by_labels, self._by_tier = stamp, {}, {}

    def _combine(self, labels: tuple[str, ...]) -> Division:
        column = self._nodes.column(labels[-1])
        names = ("" if value is None else value or '""' for value in column.values)
        division = _division(names, column.codes)
        return (
            division if len(labels) == 1 else self.intersect(self.by_labels(labels[:-1]), division)
        )

    def _divide(self, tier: int) -> list[Division]:
        layers: list[tuple[list[str], Codes]] = []
        of_tier = (name for name, row in self._hyper_nodes.items() if row.spec.tier == tier)
        for name in sorted(of_tier):
            mask = self._mask(name)
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
            hyper_node = self._hyper_nodes.get(names.pop())
            for member in hyper_node.spec.members if hyper_node is not None else ():
                if member.type == "HyperNode":
                    inner = set(self._named(member, self._hyper_nodes)) - seen
                    names += inner
                    seen |= inner
                elif member.selector.label_match is not None:
                    mask |= self._with_labels(member.selector.label_match)
                else:
                    mask[self._nodes.rows_of(self._named(member, self._nodes.names))] = True
        return mask

    def _named(self, member: HyperNodeMember, names: Iterable[str]) -> list[str]:
        selector = member.selector
        if selector.exact_match is not None:
            return [selector.exact_match.name]
        if selector.regex_match is None:
            return []
        text = selector.regex_match.pattern
        pattern = self._matches.get(text)
        if pattern is None:
            pattern = self._matches[text] = _Pattern(text)
        return [name for name in names if pattern.matches(name)]

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


class _Pattern:
    """A regular expression of RE2, as in Volcano, with its answers: node names rarely change."""

    def __init__(self, text: str) -> None:
        import re2  # only clusters with such HyperNodes need it

        options = re2.Options()
        options.log_errors = False
        self._answers: dict[str, bool] = {}
        self._search: Callable[[str], object]
        try:
            self._search = re2.compile(text, options).search
        except re2.error:
            self._search = lambda _: None  # an invalid pattern matches no name

    def matches(self, name: str) -> bool:
        answer = self._answers.get(name)
        if answer is None:
            answer = self._answers[name] = self._search(name) is not None
        return answer
