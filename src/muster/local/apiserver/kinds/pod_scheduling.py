"""What a pod may not say about the nodes and pods it wants to be near.

Pure; called by `pods.py`.

What every pod tolerates, whether it says so or not.

Pure; called by `policy.py` for new pods and by `pod_changes.py` for changed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


_NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"
_WANTED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with an affinity."""
    yield from _nodes(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pods(affinity.get(kind) or {}, f"{path}.{kind}")


def _nodes(affinity: Raw, path: str) -> Iterator[Cause]:
    needed = affinity.get(_NEEDED)
    if needed is not None:
        where = f"{path}.{_NEEDED}.nodeSelectorTerms"
        terms = needed.get("nodeSelectorTerms") or ()
        if not terms:
            yield api_errors.required(where, "must have at least one node selector term")
        for i, term in enumerate(terms):
            yield from _term(term, f"{where}[{i}]")
    for i, wish in enumerate(affinity.get(_WANTED) or ()):
        where = f"{path}.{_WANTED}[{i}]"
        yield from _weight(wish, where)
        yield from _term(wish.get("preference") or {}, f"{where}.preference")


def _weight(wish: Raw, path: str) -> Iterator[Cause]:
    if not 1 <= wish.get("weight", 0) <= 100:
        yield api_errors.invalid_value(
            f"{path}.weight", wish.get("weight", 0), "must be in the range 1-100"
        )


def _term(term: Raw, path: str) -> Iterator[Cause]:
    for i, wanted in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{i}]"
        operator, values = wanted.get("operator") or "", wanted.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                told = "must be specified when `operator` is 'In' or 'NotIn'"
                yield api_errors.required(f"{where}.values", told)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                told = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield api_errors.forbidden_field(f"{where}.values", told)
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                told = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield api_errors.required(f"{where}.values", told)
        else:
            told = "not a valid selector operator"
            yield api_errors.invalid_value(f"{where}.operator", operator, told)
        yield from _key(wanted.get("key") or "", f"{where}.key")


def _pods(affinity: Raw, path: str) -> Iterator[Cause]:
    for i, term in enumerate(affinity.get(_NEEDED) or ()):
        yield from _near(term, f"{path}.{_NEEDED}[{i}]")
    for i, wish in enumerate(affinity.get(_WANTED) or ()):
        where = f"{path}.{_WANTED}[{i}]"
        yield from _weight(wish, where)
        yield from _near(wish.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _near(term: Raw, path: str) -> Iterator[Cause]:
    key = term.get("topologyKey") or ""
    if not key:
        yield api_errors.required(f"{path}.topologyKey", "can not be empty")
    yield from _key(key, f"{path}.topologyKey")


def _key(key: str, path: str) -> Iterator[Cause]:
    yield from (api_errors.invalid_value(path, key, told) for told in names.check_key(key))


_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tolerate_short_outages(spec: Raw) -> None:
    """A pod stays five minutes on a node that is not ready or cannot be reached."""
    tolerations = spec["tolerations"] = spec.get("tolerations") or []
    for taint in _TAINTS:
        if not any(
            t.get("key") in (taint, None, "") and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        ):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )
