"""The role that a user needs to submit jobs, for one whom the cluster refused. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from kubekit.request_errors import Forbidden
from muster.contract.job_kinds import JOB_KINDS

if TYPE_CHECKING:
    from kubekit.rights import Rule

OWN = "muster-edit"
"""The role that `muster install` adds to Kubernetes' own roles `edit` and `admin`."""
_RBAC = {"roles", "rolebindings"}
_JOBS = {kind.plural for kind in JOB_KINDS}
_ACCOUNT = "system:serviceaccount:"


def with_role(error: Forbidden, namespace: str, role: str = "") -> Forbidden:
    """The error with the role to bind and its command; the same error if no right is missing.

    Without a role, it is the smallest one with the right that is missing.
    """
    missing = error.missing_right
    if missing is None:
        return error
    role = role or _role(missing.rule)
    words = OWN if role == OWN else f"{role}, which includes {OWN},"
    better = Forbidden(
        f"{missing.who} may not submit jobs in the namespace {namespace} ({missing.rule.words}): "
        f"the role {words} allows it",
        status=error.status,
        reason=error.reason,
        hint=f"An administrator runs: {_bind(missing.who, role, namespace)}",
    )
    better.missing_right, better.action = missing, error.action
    return better


def _role(missing: Rule) -> str:
    """The smallest role with this rule."""
    if _JOBS.intersection(missing.resources):
        # Jobs come after their companions: the user may write these, but has no role for jobs.
        return OWN
    return "admin" if _RBAC.intersection(missing.resources) else "edit"


def _bind(user: str, role: str, namespace: str) -> str:
    """The command that binds a role to a user or a service account."""
    if user.startswith(_ACCOUNT):
        account = user.removeprefix(_ACCOUNT)
        subject, name = f"--serviceaccount={account}", account.rpartition(":")[2]
    else:
        subject, name = f"--user={user}", re.sub(r"[^a-z0-9.-]+", "-", user.lower()).strip("-.")
    binding = f"{name}-{role}" if name else role
    words = ["kubectl", "create", "rolebinding", binding, "--namespace", namespace]
    return shlex.join([*words, f"--clusterrole={role}", subject])
