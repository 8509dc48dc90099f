"""The rights that a reader of the dashboard needs on a cluster.

The dashboard has no rights of its own: it uses those of its user. `muster install` makes roles of
these rights, to be bound to users. A test opens the pages with exactly these rights, and compares
them with the requests in the audit log of a real kube-apiserver.

Left out on purpose are ConfigMaps at large: exported models are published on the local cluster
only, and a page shows the hostfile of an MPIJob to those who may read it.
"""

from __future__ import annotations

from muster.api.kinds import CONFIG_MAPS, EVENTS, JOB_KINDS, NODES, PODS
from muster.rights import READ, Rights, Rule, rule
from muster.scheduler.waiting_line_format import CONFIG_MAP


def rights() -> Rights:
    """The rights of a reader, who changes nothing."""
    return Rights(
        served=(
            rule(JOB_KINDS, ("get", *READ), "jobs"),
            rule([PODS], ("get", *READ), "pods of jobs"),
            rule([PODS], ("get",), "logs", part="log"),
            rule([EVENTS], READ, "events and history"),
            Rule(("metrics.k8s.io",), ("pods",), ("list",), why="curves of usage"),
        ),
        cluster=(rule([NODES], READ, "the map of the cluster"),),
        leases=(Rule(("",), (CONFIG_MAPS.plural,), READ, (CONFIG_MAP,), "the line"),),
    )
