"""The daemons need exactly the rights that their code declares: no more and no fewer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.rights import Right, Rule
from muster.contract.job_kinds import JOB_KINDS
from tests.audited_rights import Refusal, unused
from tests.muster.operator import rbac
from tests.muster.operator.end_to_end.rights_stories import RANKS, left_behind, one_job, stories
from tests.muster.operator.rbac import Watched, body

pytestmark = [pytest.mark.kube, pytest.mark.slow]
UNUSED = {
    "operator": {
        # Kubernetes lets nobody grant a right without having it: needed, but never used. A test
        # below takes some of these rights away.
        *(Right(verb, "", "pods/exec") for verb in ("create", "get")),
        # The admission plugin checks these rights of the daemon; the daemon sends no such request.
        *(Right("update", "kubeflow.org", f"{kind.plural}/finalizers") for kind in JOB_KINDS),
        *(Right("delete", "", name) for name in ("configmaps", "secrets", "serviceaccounts")),
        *(Right("delete", "rbac.authorization.k8s.io", name) for name in ("roles", "rolebindings")),
    },
    "scheduler": {
        # Used only after a bind or a deletion whose response was lost or a conflict.
        Right("get", "", "pods"),
        # An event is patched only when it repeats, after half a minute or more.
        Right("patch", "", "events"),
    },
}


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[Watched]:
    """A cluster on which both daemons have run all the scenarios without a refusal."""
    with rbac.running(control_plane_binaries) as started:
        asyncio.run(rbac.run_stories(started, stories(started)))
        yield started


@pytest.mark.parametrize("daemon", rbac.DAEMONS)
def test_every_right_that_is_granted_is_used(daemon: str, cluster: Watched) -> None:
    assert unused(rbac.granted(daemon) - UNUSED[daemon], cluster.requests(daemon)) == []


@pytest.mark.parametrize("daemon", rbac.DAEMONS)
def test_a_surplus_rule_is_named(daemon: str, cluster: Watched) -> None:
    surplus = Rule(("", "apps"), ("endpoints", "replicasets"), ("delete",))
    of_another = Rule(("coordination.k8s.io",), ("leases",), ("patch",), ("muster-scheduler.x",))
    granted = rbac.granted(daemon, surplus, of_another) - UNUSED[daemon]

    assert list(map(str, unused(granted, cluster.requests(daemon)))) == [
        "delete endpoints",
        "delete replicasets",
        "delete endpoints.apps",
        "delete replicasets.apps",
        "patch leases.coordination.k8s.io muster-scheduler.x",
    ]


@pytest.mark.parametrize(
    ("daemon", "right"),
    [
        ("operator", Right("create", "", "services")),
        ("scheduler", Right("create", "", "pods/binding")),
    ],
)
def test_a_missing_right_is_named_and_not_waited_for(
    daemon: str, right: Right, cluster: Watched
) -> None:
    lacking = rbac.without(cluster.plane, daemon, right)
    with lacking, pytest.raises(rbac.MissingRights) as missing:
        asyncio.run(rbac.run_stories(cluster, one_job(cluster, f"lacks-{daemon}"), 2.0))

    assert missing.value.missing == [(daemon, Refusal(right))]
    assert str(missing.value) == f"muster-{daemon} may not {right}"


@pytest.mark.parametrize(
    ("right", "refused", "because"),
    [
        (
            Right("update", "kubeflow.org", "mpijobs/finalizers"),
            "create",
            "a resource you can't set finalizers on",
        ),
        (Right("get", "", "pods/exec"), "create roles", "permissions not currently held"),
        (Right("delete", "", "configmaps"), "patch configmaps", "a resource you can't delete"),
    ],
)
def test_a_right_that_no_request_needs_is_checked_by_the_server(
    right: Right, refused: str, because: str, cluster: Watched
) -> None:
    name = right.resource.replace("/", "-")
    lacking = rbac.without(cluster.plane, "operator", right)
    job = body("MPIJob", "v1", "j", {"mpiReplicaSpecs": RANKS, "sshAuthMountPath": ""})
    with lacking, pytest.raises(rbac.MissingRights) as missing:
        asyncio.run(rbac.run_stories(cluster, left_behind(cluster, name, job), 2.0))

    for daemon, refusal in missing.value.missing:
        assert daemon == "operator"
        assert str(refusal.right).startswith(refused)
        assert because in refusal.because
