"""Rights of a component on a cluster: rules as RBAC has them, grouped by where they are needed.

Each component declares its rights once, as a `Rights`. Roles, documents, the
chart and `muster doctor` use this declaration. No rule has `*`.

`MissingRight` is the one place that words the sentence about a right that somebody lacks. It is
read in `muster doctor`, on the objects that a component could not write, and in its log.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READ = ("list", "watch")
"""What an informer needs."""


class Rule(msgspec.Struct, frozen=True):
    """Verbs on resources; with `names`, only on the objects of these names."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    why: str = ""
    """The reason, for a reader who wonders about this rule."""

    def as_rbac(self) -> dict[str, Any]:
        """The rule as it stands in a Role."""
        rule: dict[str, Any] = {"apiGroups": list(self.groups), "resources": list(self.resources)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return {**rule, "verbs": list(self.verbs)}

    def __str__(self) -> str:
        """The rule in one line of YAML."""
        groups = ", ".join(f'"{group}"' for group in self.groups)
        names = f", resourceNames: [{', '.join(self.names)}]" if self.names else ""
        resources = f"resources: [{', '.join(self.resources)}]{names}"
        return f"{{apiGroups: [{groups}], {resources}, verbs: [{', '.join(self.verbs)}]}}"

    @property
    def words(self) -> str:
        """The verbs and resources in words: `create, patch events`."""
        groups = [f".{group}" if group else "" for group in self.groups]
        resources = [name + group for group in groups for name in self.resources]
        names = f" {', '.join(self.names)}" if self.names else ""
        return f"{', '.join(self.verbs)} {', '.join(resources)}{names}"


class MissingRight(msgspec.Struct, frozen=True):
    """A rule that somebody lacks."""

    who: str
    """The name of a component or of a user; `you` is who reads it."""
    rule: Rule

    @property
    def problem(self) -> str:
        return f"{self.who} may not {self.rule.words}"

    @property
    def fix(self) -> str:
        return f"add the rule {self.rule}"

    def __str__(self) -> str:
        return f"{self.problem}; {self.fix}"


MISSING_RIGHT = "MissingRight"
"""The reason of events about a missing right."""


def account_name(user: str) -> str:
    """The name of a user; of the service account of one of our components, the component's."""
    prefix, _, name = user.rpartition(":")
    is_component = prefix.startswith("system:serviceaccount:") and name.startswith("muster-")
    return name if is_component else user


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource; a subresource follows a slash."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}" + (f" {self.name}" if self.name else "")

    def attributes(self, namespace: str) -> dict[str, str]:
        """The `resourceAttributes` of an access review; an empty namespace is everywhere."""
        resource, _, part = self.resource.partition("/")
        row = {"verb": self.verb, "group": self.group, "resource": resource}
        others = {"namespace": namespace, "subresource": part, "name": self.name}
        return row | {name: value for name, value in others.items() if value}


class Rights(msgspec.Struct, frozen=True):
    """All rights of one component."""

    served: tuple[Rule, ...]
    """On objects in the namespaces that the component serves: one, or all."""
    cluster: tuple[Rule, ...] = ()
    """On the whole cluster, even if the component serves one namespace."""
    leases: tuple[Rule, ...] = ()
    """In the namespace of its leases and records."""


class Resource(Protocol):
    """What a rule must know of a kind."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...


def rule(kinds: Iterable[Resource], verbs: Iterable[str], why: str = "", part: str = "") -> Rule:
    """A rule for these kinds, or for one subresource of them; every group has every plural."""
    kinds = tuple(kinds)
    suffix = f"/{part}" if part else ""
    return Rule(
        groups=tuple(dict.fromkeys(kind.group for kind in kinds)),
        resources=tuple(dict.fromkeys(kind.plural + suffix for kind in kinds)),
        verbs=tuple(verbs),
        why=why,
    )


def expand(rules: Iterable[Rule]) -> Iterator[Right]:
    """Every single right that rules give."""
    for row in rules:
        rights = product(row.groups, row.resources, row.verbs, row.names or ("",))
        yield from (Right(verb, group, plural, name) for group, plural, verb, name in rights)


def compact(rights: Iterable[Right]) -> list[Rule]:
    """The rights as few rules: verbs of one resource together, then resources of the same verbs."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.name), []).append(right.verb)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), words in verbs.items():
        resources.setdefault((group, name, tuple(words)), []).append(resource)
    return [
        Rule((group,), tuple(plurals), granted, (name,) if name else ())
        for (group, name, granted), plurals in resources.items()
    ]


def lease_rules(name: str) -> tuple[Rule, ...]:
    """The rules of leader election with a lease of this name."""
    group, leases = ("coordination.k8s.io",), ("leases",)
    return (
        # RBAC cannot limit `create` by name.
        Rule(group, leases, ("create",), why="leader election"),
        Rule(group, leases, ("get", "update"), names=(name,), why="leader election"),
    )
