"""The rights that users of the dashboard need on a cluster.

The dashboard has no rights of its own: it uses those of its user. `muster install` makes roles of
these rights, to be bound to users: `muster-dashboard` for readers and, in addition,
`muster-dashboard-edit` for those who change something. A test opens the pages and makes the changes
with exactly these rights, and compares them with the audit log of a real kube-apiserver.

Kubernetes' own role `edit` has the second part too, with the jobs that an installation adds to it.
"""

from __future__ import annotations

from kubekit.objects.kinds import CONFIG_MAPS, EVENTS, NODES, PODS
from kubekit.rights import READ, Rights, Rule, rule
from muster.contract.job_resources import JOB_KINDS
from muster.contract.waiting_line_format import CONFIG_MAP


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
        # Pages watch the line; `arena get` and `arena explain` get it, with the same role.
        leases=(Rule(("",), (CONFIG_MAPS.plural,), ("get", *READ), (CONFIG_MAP,), "the line"),),
    )


def changes() -> Rights:
    """The further rights of a user who submits, suspends and deletes jobs, and uses models."""
    return Rights(
        served=(
            rule(JOB_KINDS, ("create", "patch", "delete"), "submit, suspend, resume and delete"),
            rule([PODS], ("get",), "scalars of a job's TensorBoard", part="proxy"),
            # RBAC cannot limit lists by label, so this is every ConfigMap of the namespace.
            rule(
                [CONFIG_MAPS],
                ("get", *READ, "create", "patch", "delete"),
                "models, hostfiles, and records of submitted jobs",
            ),
            Rule(("batch",), ("jobs",), ("create", "delete"), why="readers of models in volumes"),
            rule([PODS], ("create", "delete"), "trying and downloading models"),
            rule([PODS], ("create", "get"), "downloading models", part="exec"),
        )
    )
