"""Where a pod may run: affinity, scheduling gates, tolerations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Cause,
    Causes,
    duplicate,
    invalid_value,
    required,
)
from localkube.apiserver.kinds.fields import check_operator, each, one_of

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OUTAGES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def check_affinity(affinity: Raw, path: str) -> Causes:
    """The causes for an invalid affinity."""
    if not affinity:
        return
    yield from _check_nodes(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _check_pods(affinity.get(kind) or {}, f"{path}.{kind}")


def _check_nodes(affinity: Raw, path: str) -> Causes:
    node_selector = affinity.get(REQUIRED)
    if node_selector is not None:
        where = f"{path}.{REQUIRED}.nodeSelectorTerms"
        terms = node_selector.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(where, "must have at least one node selector term")
        for i, term in enumerate(terms):
            yield from _check_node_term(term, f"{where}[{i}]")
    for where, preferred in each(affinity, path, _PREFERRED):
        yield from _check_weight(preferred, where)
        yield from _check_node_term(preferred.get("preference") or {}, f"{where}.preference")


def _check_weight(preferred: Raw, path: str) -> Causes:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _check_node_term(term: Raw, path: str) -> Causes:
    for where, requirement in each(term, path, "matchExpressions"):
        if requirement.get("operator") in ("Gt", "Lt"):
            if len(requirement.get("values") or ()) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{where}.values", detail)
        else:
            yield from check_operator(requirement, where)
        yield from _check_key(requirement.get("key") or "", f"{where}.key")


def _check_pods(affinity: Raw, path: str) -> Causes:
    for where, term in each(affinity, path, REQUIRED):
        yield from _check_pod_term(term, where)
    for where, preferred in each(affinity, path, _PREFERRED):
        yield from _check_weight(preferred, where)
        term = preferred.get("podAffinityTerm") or {}
        yield from _check_pod_term(term, f"{where}.podAffinityTerm")


def _check_pod_term(term: Raw, path: str) -> Causes:
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from _check_key(key, f"{path}.topologyKey")


def _check_key(key: str, path: str) -> list[Cause]:
    return names.invalid_values(path, key, names.check_key(key))


def check_gates(spec: Raw, path: str) -> Causes:
    """The causes for invalid scheduling gates."""
    seen: set[str] = set()
    for where, gate in each(spec, path, "schedulingGates"):
        name = str(gate.get("name") or "")
        yield from _check_key(name, where)
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)


def check_toleration(toleration: Raw, path: str) -> Causes:
    """The causes for an invalid toleration."""
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if key:
        yield from _check_key(key, f"{path}.key")
    elif operator != "Exists":
        detail = (
            'operator must be Exists when `key` is empty, which means "match all values and all'
            ' keys"'
        )
        yield invalid_value(f"{path}.operator", operator, detail)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", effect, detail)
    yield from one_of(toleration, "operator", ("Equal", "Exists"), path)
    if operator == "Exists" and value:
        detail = "value must be empty when `operator` is 'Exists'"
        yield invalid_value(f"{path}.operator", value, detail)
    yield from one_of(toleration, "effect", _EFFECTS, path)


def tolerate_short_outages(spec: Raw) -> None:
    """Let a pod stay five minutes on a node that is not ready or cannot be reached.

    Most outages are shorter, and a restart elsewhere would cost more. A pod that tolerates such a
    taint in its own way is left alone.
    """
    tolerations = spec["tolerations"] = spec.get("tolerations") or []
    for taint in _OUTAGES:
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
