"""The daemons need exactly the rights that their code declares: no more and no fewer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from muster.api.kinds import (
    JAXJOBS,
    JOB_KINDS,
    MPIJOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    PYTORCHJOBS,
    SERVICES,
    TFJOBS,
    Kind,
)
from muster.api.meta import Key, Raw
from muster.api.storage import NO_PROVISIONER, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from muster.deploy import roles
from muster.deploy.values import Values
from muster.jobs import names
from muster.jobs.job_kinds import JOB_KIND_BY_NAME
from muster.kube.client import Client
from muster.operator.build.dialect_choice import GROUP_KINDS
from muster.operator.frameworks.registry import OWNED
from muster.rights import Right, Rule
from tests.audited_rights import unused
from tests.operator import rbac
from tests.operator.builders import replica
from tests.operator.driver import get_or_none, nothing, pods
from tests.operator.rbac import Watched, body
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]
CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi", "PyTorchJob": "pytorch", "JAXJob": "jax"}
UNLABELLED = {names.JOB: None, names.OPERATOR: None}
DIALECTS = ("volcano", "kube-batch", "coscheduling", "pdb", "native")

UNUSED = {
    "operator": {
        # Kubernetes lets nobody grant a right without having it: needed, but never used.
        *(Right(verb, "", "pods/exec") for verb in ("create", "get")),
        # The admission plugin checks these rights of the daemon; the daemon sends no such request.
        *(Right("update", "kubeflow.org", f"{kind.plural}/finalizers") for kind in JOB_KINDS),
        *(Right("delete", "", name) for name in ("configmaps", "secrets", "serviceaccounts")),
        *(Right("delete", "rbac.authorization.k8s.io", name) for name in ("roles", "rolebindings")),
        # An event is patched only when it repeats.
        Right("patch", "", "events"),
        # Used only if the name of a pod is taken.
        Right("get", "", "pods"),
    },
    "scheduler": {
        # Used only after a bind or a deletion whose response was lost or a conflict.
        Right("get", "", "pods"),
        # An event is patched only when it repeats.
        Right("patch", "", "events"),
        # None of the jobs here is declared in this dialect.
        Right("patch", "scheduling.sigs.dev", "podgroups/status"),
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
    rbac.grant(cluster.plane, rbac.without(daemon, right))
    try:
        with pytest.raises(rbac.MissingRights) as missing:
            asyncio.run(rbac.run_stories(cluster, one_job(cluster, f"lacks-{daemon}"), 2.0))
    finally:
        rbac.grant(cluster.plane, roles.build(daemon, Values(), rbac.NAMESPACE))

    assert missing.value.missing == [(daemon, right)]
    assert str(missing.value) == f"muster-{daemon} may not {right}"


async def one_job(cluster: Watched, name: str) -> None:
    """A job that cannot run without each of its rights."""
    async with Client.connect(cluster.admin) as client:
        ns = await namespace(client, name)
        job = body("TFJob", "v1", "j", {"tfReplicaSpecs": {"Worker": role("TFJob")}})
        await client.create(TFJOBS, job, namespace=ns)
        await reaches(client, TFJOBS, Key(ns, "j"), "Running")


# The scenarios


async def stories(cluster: Watched) -> None:
    await rbac.lead(cluster)
    async with Client.connect(cluster.admin) as client, asyncio.TaskGroup() as group:
        for name, kind, job in endings():
            group.create_task(ends(client, name, kind, job))
        for name, kind, job in lasting():
            group.create_task(changes(client, name, kind, job))
            group.create_task(leaves(client, name, kind, job))
            group.create_task(waits_for_names(client, name, kind, job))
        group.create_task(takes_ports(client))
        group.create_task(displaces(client))
        group.create_task(mounts(client))


async def namespace(client: Client, name: str) -> str:
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


async def reaches(client: Client, kind: Kind[Raw], key: Key, state: str) -> None:
    """Wait until the job is in this state."""

    async def check() -> bool:
        rows = (await client.get(kind, key)).get("status", {}).get("conditions") or []
        return any(row["type"] == state and row["status"] == "True" for row in rows)

    await eventually(check, what=f"{key} {state}", timeout=120)


def role(kind: str, count: int = 1, *, ends: bool = False, gpus: int = 0, **spec: Any) -> Raw:
    """A role whose pods run on, or succeed as soon as they run."""
    spec_of_role = replica(count, name=CONTAINERS[kind], **spec)
    if ends:
        spec_of_role["template"]["metadata"] = {"annotations": {"muster.dev/test-exit-code": "0"}}
    if gpus:
        container = spec_of_role["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return spec_of_role


def endings() -> Iterator[tuple[str, Kind[Raw], Raw]]:
    """One job of each kind, launch method and dialect; each is deleted when it has ended."""
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 2}
    roles: dict[str, Raw] = {
        "TFJob": {"Chief": role("TFJob", ends=True), "PS": role("TFJob")},
        "PyTorchJob": {"Master": role("PyTorchJob", ends=True), "Worker": role("PyTorchJob", 2)},
        "JAXJob": {"Worker": role("JAXJob", 2, ends=True)},
        "MPIJob": {"Launcher": role("MPIJob", ends=True), "Worker": role("MPIJob", 2)},
    }

    def spec(kind: str, **more: Any) -> Raw:
        return {JOB_KIND_BY_NAME[kind].replicas_field: roles[kind], "runPolicy": policy, **more}

    for kind in (TFJOBS, PYTORCHJOBS, JAXJOBS, MPIJOBS):
        yield kind.plural, kind, body(kind.kind, "v1", "j", spec(kind.kind))
    by_ssh = spec("MPIJob", sshAuthMountPath="/root/.ssh")
    yield "ssh", MPIJOBS, body("MPIJob", "v1", "j", by_ssh)
    for dialect in DIALECTS:
        marks = {"muster.dev/gang-dialect": dialect}
        yield dialect, TFJOBS, body("TFJob", "v1", "j", spec("TFJob"), annotations=marks)


async def ends(client: Client, name: str, kind: Kind[Raw], job: Raw) -> None:
    """A job runs to its end and is deleted by its TTL."""
    ns, last_state = await namespace(client, name), ""

    async def is_deleted() -> bool:
        nonlocal last_state
        current = await get_or_none(client, kind, Key(ns, "j"))
        rows = (current or {}).get("status", {}).get("conditions") or [{"type": last_state}]
        last_state = rows[-1]["type"]
        return current is None

    await client.create(kind, job, namespace=ns)
    await eventually(is_deleted, what=f"the end of {name}", timeout=120)
    assert last_state == "Succeeded", name
    await nothing(client, PODS, ns)


def lasting() -> Iterator[tuple[str, Kind[Raw], Raw]]:
    """Jobs of every kind and dialect that run on."""

    def job_of(kind: Kind[Raw], roles: Raw, dialect: str = "volcano", **spec: Any) -> Raw:
        marks = {"muster.dev/gang-dialect": dialect}
        field = JOB_KIND_BY_NAME[kind.kind].replicas_field
        return body(kind.kind, "v1", "j", {field: roles, **spec}, annotations=marks)

    for dialect in DIALECTS:
        yield dialect, TFJOBS, job_of(TFJOBS, {"Worker": role("TFJob")}, dialect)
    for kind in (PYTORCHJOBS, JAXJOBS):
        yield kind.plural, kind, job_of(kind, {"Worker": role(kind.kind)})
    ranks = {"Launcher": role("MPIJob"), "Worker": role("MPIJob")}
    yield "exec", MPIJOBS, job_of(MPIJOBS, ranks)
    yield "ssh", MPIJOBS, job_of(MPIJOBS, ranks, sshAuthMountPath="/root/.ssh")


async def changes(client: Client, name: str, kind: Kind[Raw], job: Raw) -> None:
    """A job is scaled together with its group, and suspended."""
    ns, key = await namespace(client, f"changes-{name}"), Key(f"changes-{name}", "j")
    await client.create(kind, job, namespace=ns)
    await reaches(client, kind, key, "Running")
    field = JOB_KIND_BY_NAME[kind.kind].replicas_field
    await client.patch(kind, key, {"spec": {field: {"Worker": {"replicas": 2}}}})
    await pods(client, ns, 3 if kind is MPIJOBS else 2)
    await client.patch(kind, key, {"spec": {"runPolicy": {"suspend": True}}})
    await nothing(client, PODS, ns)


async def orphans(client: Client, kind: Kind[Raw], key: Key, job: Raw) -> None:
    """A job runs, and is deleted without its objects."""
    await client.create(kind, job, namespace=key.namespace)
    await reaches(client, kind, key, "Running")
    await client.delete(kind, key, propagation="Orphan")

    async def is_deleted() -> bool:
        return await get_or_none(client, kind, key) is None

    await eventually(is_deleted, what="a job that left its pods", timeout=60)


async def waits_for_names(client: Client, name: str, kind: Kind[Raw], job: Raw) -> None:
    """Objects without the job's labels hold the names that it needs, until they are deleted."""
    ns, key = await namespace(client, f"names-{name}"), Key(f"names-{name}", "j")
    await orphans(client, kind, key, job)
    group = GROUP_KINDS[name if name in DIALECTS else "volcano"]
    assert group is not None
    kinds = {owned.kind: owned for owned in (SERVICES, group, *OWNED)}
    for owned in kinds.values():
        for item in (await client.list(owned.read_as(dict), ns, labels=names.JOB)).items:
            where = Key(ns, item["metadata"]["name"])
            await client.patch(owned.read_as(dict), where, {"metadata": {"labels": UNLABELLED}})
    await client.create(kind, job, namespace=ns)

    async def runs() -> bool:
        """Delete the object that the job waits for; true once it runs."""
        status = (await client.get(kind, key)).get("status", {})
        waiting = status.get("waiting", {})
        if waiting.get("reason") == "ErrResourceExists":
            taken, taken_name, *_ = waiting["message"].split()
            if await get_or_none(client, kinds[taken].read_as(dict), Key(ns, taken_name)):
                await client.delete(kinds[taken], Key(ns, taken_name))
        types = [row["type"] for row in status.get("conditions", []) if row["status"] == "True"]
        return "Running" in types

    await eventually(runs, what=f"{name} after its names are free", timeout=120)


async def leaves(client: Client, name: str, kind: Kind[Raw], job: Raw) -> None:
    """The next job of the name adopts the objects that a deleted job left behind."""
    ns, key = await namespace(client, f"leaves-{name}"), Key(f"leaves-{name}", "j")
    await orphans(client, kind, key, job)
    second = await client.create(kind, job, namespace=ns)

    async def adopted() -> bool:
        owner = (await client.get(PODS, Key(ns, "j-worker-0"))).metadata.controller
        return owner is not None and owner.uid == second["metadata"]["uid"]

    await eventually(adopted, what="the pod being the second job's", timeout=60)
    await reaches(client, kind, key, "Running")


async def takes_ports(client: Client) -> None:
    """A job is moved to the host's network when it already has services."""
    ns = await namespace(client, "ports")
    job = body("TFJob", "v1", "j", {"tfReplicaSpecs": {"Worker": role("TFJob")}})
    await client.create(TFJOBS, job, namespace=ns)
    await reaches(client, TFJOBS, Key(ns, "j"), "Running")
    hosted = {"Worker": {"template": {"spec": {"hostNetwork": True}}}}
    await client.patch(TFJOBS, Key(ns, "j"), {"spec": {"tfReplicaSpecs": hosted}})
    await client.delete(PODS, Key(ns, "j-worker-0"))

    async def has_one() -> bool:
        pod = await get_or_none(client, PODS, Key(ns, "j-worker-0"))
        return pod is not None and pod.spec.host_network

    await eventually(has_one, what="a pod on the host's network", timeout=60)


async def displaces(client: Client) -> None:
    """A gang waits, preempts another gang; a third gang can never start."""
    ns = await namespace(client, "displaces")
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    for name, count, class_ in (("low", 3, ""), ("high", 3, "high"), ("never", 9, "")):
        workers = role("TFJob", count, gpus=8, priorityClassName=class_)
        workers["restartPolicy"] = "OnFailure"
        job = body("TFJob", "v1", name, {"tfReplicaSpecs": {"Worker": workers}})
        await client.create(TFJOBS, job, namespace=ns)
        if name != "never":
            await reaches(client, TFJOBS, Key(ns, name), "Running")

    async def explained() -> bool:
        job = await client.get(TFJOBS, Key(ns, "never"))
        return bool(job.get("status", {}).get("waiting"))

    await eventually(explained, what="why the third waits", timeout=60)


async def mounts(client: Client) -> None:
    """One claim gets an existing volume, another claim a new one."""
    ns = await namespace(client, "mounts")
    for name, provisioner in (("here", NO_PROVISIONER), ("made", "example.com/none")):
        kind = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await client.create(STORAGE_CLASSES, {"metadata": {"name": name}, **kind})
        requests = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        claim = {"metadata": {"name": name}, "spec": requests}
        await client.create(VOLUME_CLAIMS, claim, namespace=ns)
    row = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "here",
        "local": {"path": "/none"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [row]}]}},
    }
    await client.create(VOLUMES, {"metadata": {"name": "here"}, "spec": volume})
    for name in ("here", "made"):
        source = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        job = body(
            "TFJob", "v1", name, {"tfReplicaSpecs": {"Worker": role("TFJob", volumes=source)}}
        )
        await client.create(TFJOBS, job, namespace=ns)
    await reaches(client, TFJOBS, Key(ns, "here"), "Running")
    selected = "volume.kubernetes.io/selected-node"

    async def chosen() -> bool:
        claim = await client.get(VOLUME_CLAIMS.read_as(dict), Key(ns, "made"))
        return selected in (claim["metadata"].get("annotations") or {})

    await eventually(chosen, what="a node for the claim")
