"""The rights that the scheduler needs on a cluster, no more and no fewer.

A test runs gangs of every dialect with exactly these rights, and compares them with the requests in
the audit log of a real kube-apiserver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubekit.objects.kinds import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
)
from kubekit.objects.storage import CSI_NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from kubekit.rights import READ, Rights, Rule, lease_rules, rule
from muster.contract.gang_dialects import DIALECTS
from muster.contract.pod_groups import HYPER_NODES
from muster.contract.waiting_line_format import CONFIG_MAP

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("muster", "kube-batchd", "kube-batch")
"""The scheduler names that the scheduler answers to, unless it is told otherwise."""
LEASE = "muster-scheduler"


def name_lease(name: str) -> str:
    """The lease of a Muster scheduler that answers to a name."""
    return f"{LEASE}.{re.sub('[^a-z0-9-]', '-', name.lower()).strip('-')}"


def rights(names: Iterable[str] = NAMES) -> Rights:
    """The rights of a scheduler that answers to these names."""
    return Rights(served=_served(), cluster=_cluster(), leases=_records(names))


def _served() -> tuple[Rule, ...]:
    groups = [kind for dialect in DIALECTS for kind in dialect.kinds if kind.plural == "podgroups"]
    return (
        rule([PODS], ("get", *READ, "delete"), "pods; deleting those that are preempted"),
        rule([PODS], ("create",), "giving pods their nodes", part="binding"),
        rule([PODS], ("patch",), "why a pod waits", part="status"),
        rule([VOLUME_CLAIMS], (*READ, "patch"), "giving claims their volumes"),
        rule([POD_DISRUPTION_BUDGETS], READ, "gangs in the dialect pdb, and limits of preemption"),
        rule(groups, READ, "gangs"),
        rule(groups, ("patch",), "the status of gangs", part="status"),
        rule([EVENTS], ("create", "patch"), "events about gangs"),
    )


def _cluster() -> tuple[Rule, ...]:
    return (
        rule([NODES, NAMESPACES], READ, "nodes, and namespaces that affinity rules select"),
        rule([VOLUMES], (*READ, "patch"), "giving claims their volumes"),
        rule([STORAGE_CLASSES, CSI_NODES], READ, "volumes that nodes can have"),
        rule([PRIORITY_CLASSES], READ, "the priority of gangs"),
        rule([HYPER_NODES], READ, "the topology of gangs that set networkTopology"),
        rule([LEASES], ("list",), "whether another scheduler answers to the same name"),
    )


def _records(names: Iterable[str]) -> tuple[Rule, ...]:
    by_name = tuple(dict.fromkeys(map(name_lease, names)))
    return (
        *lease_rules(LEASE),
        Rule(
            (LEASES.group,), (LEASES.plural,), ("patch",), by_name, "one lease per scheduler name"
        ),
        rule([CONFIG_MAPS], ("create",), "the published line"),
        Rule(("",), (CONFIG_MAPS.plural,), ("patch",), (CONFIG_MAP,), "the published line"),
    )
