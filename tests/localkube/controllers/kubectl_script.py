"""Telling one story with kubectl on two clusters, and comparing what can be seen afterwards.

A story is a list of kubectl commands. What a command prints must be the same on both. `Compare`
waits until the named kinds are the same on both: controllers need their time, but end in one state.
"""

from __future__ import annotations

import difflib
import json
import re
import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.localkube.controllers.normalise import hashes, normalised
from tests.side_by_side import side_by_side
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.localkube.controllers.two_clusters import ClusterUnderTest

Raw = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """kubectl words, and what is given on standard input; `quiet` if its output tells nothing."""

    words: str
    text: str = ""
    quiet: bool = False


@dataclass(frozen=True)
class Compare:
    """Kinds that must come to be the same; `count` objects of them, if it is given."""

    kinds: str
    timeout: float = 40
    count: int | None = None


Step = Run | Compare


def fields(spec: Mapping[str, object]) -> str:
    """Fields as the YAML lines below `spec:` of a manifest."""
    return "\n".join(f"  {key}: {value}" for key, value in spec.items())


def pod_end(code: int | None) -> str:
    """The annotations of a pod that ends with this code, or that runs on."""
    return "{}" if code is None else f'{{muster.dev/test-exit-code: "{code}"}}'


def run_on_both(both: tuple[ClusterUnderTest, ClusterUnderTest], story: list[Step]) -> None:
    """Tell it on both, step by step."""
    namespace = f"w-{secrets.token_hex(4)}"
    for place in both:
        result = place.kubectl("create", "namespace", namespace)
        assert result.returncode == 0, result.stderr
    for step in story:
        if isinstance(step, Run):
            real, ours = side_by_side(partial(_said, namespace=namespace, step=step), *both)
            difference = f"kubectl {step.words}\n--- kubernetes\n{real}\n--- ours\n{ours}"
            assert ours == real or step.quiet, difference
        else:
            look = partial(_seen, namespace=namespace, kinds=step.kinds)
            agree(both, look, step.kinds, step.timeout, step.count)
    for place in both:
        place.kubectl("delete", "namespace", namespace, "--wait=false")


def _said(place: ClusterUnderTest, namespace: str, step: Run) -> str:
    result = place.kubectl("-n", namespace, *step.words.split(" "), text=step.text or None)
    printed = f"{result.stdout}{result.stderr}(exit {result.returncode})"
    # At its end, kubectl may log that it cancelled its own watch.
    complaints = [line for line in result.stderr.splitlines() if not re.match(r"I\d{4} ", line)]
    assert step.quiet or "rror" not in "".join(complaints), f"{place.name}: {step.words}: {printed}"
    # The objects of one cluster may be a second older than those of the other.
    return re.sub(r"\b\d+s$", "<age>", printed, flags=re.MULTILINE).replace(namespace, "<ns>")


def agree(
    both: tuple[ClusterUnderTest, ClusterUnderTest],
    look: Callable[[ClusterUnderTest], list[Raw]],
    what: str,
    timeout: float = 40,
    count: int | None = None,
) -> list[Raw]:
    """What both show, once they show the same; the difference if that never happens."""
    seen: list[list[Raw]] = [[], []]

    def same() -> bool:
        seen[:] = side_by_side(look, *both)
        return seen[0] == seen[1] and count in (None, len(seen[0]))

    try:
        until(same, timeout=timeout, every=0.3)
    except AssertionError:
        if seen[0] != seen[1]:
            raise AssertionError(f"{what} differ\n{_difference(*seen)}") from None
        if count not in (None, len(seen[0])):
            raise
    return seen[0]


def _difference(real: list[Raw], ours: list[Raw]) -> str:
    before, after = (json.dumps(o, indent=1, sort_keys=True).splitlines() for o in (real, ours))
    lines = difflib.unified_diff(before, after, "kubernetes", "ours", lineterm="", n=4)
    return "\n".join(lines)


def _seen(place: ClusterUnderTest, namespace: str, kinds: str) -> list[Raw]:
    named = f"{kinds},rs,controllerrevisions"
    result = place.kubectl("-n", namespace, "get", named, "-o", "json")
    assert result.returncode == 0, result.stderr
    items: list[Raw] = json.loads(result.stdout)["items"]
    sets = [one for one in items if one["kind"] == "ReplicaSet"]
    revisions = [one for one in items if one["kind"] == "ControllerRevision"]
    unwanted = [] if "rs" in kinds.split(",") else sets
    unwanted += [] if "controllerrevisions" in kinds.split(",") else revisions
    wanted = [one for one in items if one not in unwanted]
    return normalised(wanted, hashes(sets, revisions), namespace)
