"""The placement of replicas in relation to each other: spread over nodes or packed together.

Affinity terms select the labels that every operator of these jobs sets on their pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.jobs import names
from muster.jobs.build import flag_values

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

HOST = "kubernetes.io/hostname"
_SAME_JOB, _SAME_ROLE = 100, 60


class Policy(NamedTuple):
    """Whether replicas of one role are spread or packed."""

    kind: str = "none"
    required: bool = False


ANYWHERE = Policy()


def policy(role: str, kind: str, constraint: str) -> Policy:
    """The policy that a role's two flags give."""
    kind = flag_values.choice(f"--{role}-affinity-policy", kind, ("none", "spread", "binpack"))
    strength = flag_values.choice(
        f"--{role}-affinity-constraint", constraint, ("preferred", "required")
    )
    return Policy(kind, strength == "required")


def affinity(job: str, role: str, policy: Policy) -> Raw:
    """The affinity of one role's pods; empty without a policy."""
    if policy.kind == "none":
        return {}
    same_role = same_node({names.JOB: job, names.ROLE: role.lower()})
    if policy.kind == "spread":
        return {"podAntiAffinity": _terms([(_SAME_JOB, same_role)], required=policy.required)}
    if policy.required:
        return {"podAffinity": _terms([(_SAME_JOB, same_role)], required=True)}
    same_job = same_node({names.JOB: job})
    terms = [(_SAME_JOB, same_job), (_SAME_ROLE, same_role)]
    return {"podAffinity": _terms(terms, required=False)}


def same_node(labels: dict[str, str]) -> Raw:
    """The term for the node of pods with these labels."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}


def on_node_of(job: str, role: str, index: int) -> Raw:
    """The affinity of a pod that must be where one replica is."""
    replica = {names.JOB: job, names.ROLE: role.lower(), names.INDEX: str(index)}
    return {"podAffinity": _terms([(_SAME_JOB, same_node(replica))], required=True)}


def _terms(weighted: list[tuple[int, Raw]], *, required: bool) -> Raw:
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term for _, term in weighted]}
    preferred = [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
