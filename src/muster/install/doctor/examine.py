"""All checks, in the order in which a person would look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.install.doctor import (
    access,
    cluster_checks,
    component_checks,
    facts,
    gang_checks,
    role_objects,
)
from muster.install.doctor.finding import Finding, warning

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from muster.install.doctor.facts import Facts

CHECKS = (
    cluster_checks.api_server,
    cluster_checks.clocks,
    cluster_checks.crds,
    component_checks.components,
    component_checks.rights,
    cluster_checks.nodes,
    gang_checks.scheduler_names,
    gang_checks.dialects,
    gang_checks.pending_gangs,
)


def examine(client: BlockingClient, namespace: str, *, local: bool) -> list[Finding]:
    """The findings of every check on this cluster."""
    found = facts.read(client, local=local)
    missing = {"you": access.missing_of_user(client, namespace)}
    reported = access.reported_by_components(client, namespace, found.components)
    unknown, broken = [], {}
    for component in found.components:
        rules = access.missing_of_component(client, component)
        if rules is None:
            text = f"you may not ask for the rights of {found.name_of(component)}: not checked"
            unknown.append(warning("rights", text))
        else:
            missing[found.name_of(component)] = rules
            if rules:
                broken[found.name_of(component)] = role_objects.broken_roles(client, component)
    if any(row.name == "operator" and not row.served_namespace for row in found.components):
        broken["users"] = role_objects.broken_user_roles(client)
    known = replace(found, missing=missing, broken_roles=broken, reported=reported)
    return [*judge(known), *unknown]


def judge(found: Facts) -> list[Finding]:
    """The findings about these facts."""
    return [finding for check in CHECKS for finding in check(found)]
