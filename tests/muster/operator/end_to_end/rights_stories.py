"""Stories of jobs of every kind and dialect, in which daemons use every right that they declare."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kubekit.client.client import Client
from kubekit.objects.kinds import EVENTS, NAMESPACES, PODS, PRIORITY_CLASSES, SERVICES, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.objects.storage import NO_PROVISIONER, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from kubekit.request_errors import NotFound
from muster.contract.gang_dialects import GROUP_KINDS, GROUP_NAME_ANNOTATION
from muster.contract.job_kinds import JAXJOBS, JOB_KIND_BY_NAME, MPIJOBS, PYTORCHJOBS, TFJOBS
from muster.contract.operator_rights import OWNED
from muster.contract.pod_groups import SIGS_POD_GROUPS
from muster.jobs import names
from tests.muster.operator import rbac
from tests.muster.operator.builders import replica
from tests.muster.operator.driver import get_or_none, nothing, pods
from tests.muster.operator.rbac import Watched, body
from tests.waiting import eventually

CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi", "PyTorchJob": "pytorch", "JAXJob": "jax"}
UNLABELLED = {names.JOB: None, names.OPERATOR: None}
DIALECTS = ("volcano", "kube-batch", "coscheduling", "pdb", "native")


async def stories(cluster: Watched) -> None:
    await asyncio.to_thread(rbac.lead, cluster)
    async with Client.connect(cluster.admin) as client, asyncio.TaskGroup() as group:
        for name, kind, job in endings():
            group.create_task(ends(client, name, kind, job))
        for name, kind, job in lasting():
            group.create_task(changes(client, name, kind, job))
            group.create_task(leaves(client, name, kind, job))
            group.create_task(waits_for_names(client, name, kind, job))
        group.create_task(waits_for_a_pod(client))
        group.create_task(repeats(client))
        group.create_task(sigs_group(client))
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


RANKS = {"Launcher": role("MPIJob"), "Worker": role("MPIJob")}


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
    yield "exec", MPIJOBS, job_of(MPIJOBS, RANKS)
    yield "ssh", MPIJOBS, job_of(MPIJOBS, RANKS, sshAuthMountPath="/root/.ssh")


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


async def waits_for_a_pod(client: Client) -> None:
    """Another pod has the name of a replica, until it is deleted."""
    ns = await namespace(client, "pod-names")
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    await client.create(PODS, {"metadata": {"name": "j-worker-0"}, "spec": spec}, namespace=ns)
    job = body("TFJob", "v1", "j", {"tfReplicaSpecs": {"Worker": role("TFJob")}})
    await client.create(TFJOBS, job, namespace=ns)

    async def waits() -> bool:
        return bool((await client.get(TFJOBS, Key(ns, "j"))).get("status", {}).get("waiting"))

    await eventually(waits, what="the job waits for the name", timeout=60)
    await client.delete(PODS, Key(ns, "j-worker-0"), grace=0)
    await reaches(client, TFJOBS, Key(ns, "j"), "Running")


async def repeats(client: Client) -> None:
    """A pod is deleted and created again, until the event about it is counted again."""
    ns = await namespace(client, "repeats")
    job = body("TFJob", "v1", "j", {"tfReplicaSpecs": {"Worker": role("TFJob")}})
    await client.create(TFJOBS, job, namespace=ns)

    before: dict[str, int] = {}

    async def counted() -> bool:
        with suppress(NotFound):
            await client.delete(PODS, Key(ns, "j-worker-0"))
        events = (await client.list(EVENTS.read_as(dict), ns)).items
        created = [event for event in events if event["reason"] == "SuccessfulCreatePod"]
        # Repetitions before the first write are in the event when it is created.
        now = {event["metadata"]["name"]: event.get("count", 1) for event in created}
        grown = any(count > before.get(name, count) for name, count in now.items())
        before.update(now)
        return grown

    await eventually(counted, what="an event that is counted again", every=0.5, timeout=90)


async def sigs_group(client: Client) -> None:
    """A pod of a group in the dialect that no operator writes any more."""
    ns = await namespace(client, "sigs")
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 1}}
    await client.create(SIGS_POD_GROUPS.read_as(dict), group, namespace=ns)
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "muster"}
    marks = {"name": "p", "annotations": {GROUP_NAME_ANNOTATION: "g"}}
    await client.create(PODS, {"metadata": marks, "spec": spec}, namespace=ns)

    async def runs() -> bool:
        found = await client.get(SIGS_POD_GROUPS.read_as(dict), Key(ns, "g"))
        return bool(found.get("status", {}).get("phase") == "Running")

    await eventually(runs, what="the group's status", timeout=60)


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


async def left_behind(cluster: Watched, name: str, job: Raw) -> None:
    async with Client.connect(cluster.admin) as client:
        await leaves(client, name, MPIJOBS, job)


async def one_job(cluster: Watched, name: str) -> None:
    """A job that cannot run without each of its rights."""
    async with Client.connect(cluster.admin) as client:
        ns = await namespace(client, name)
        job = body("TFJob", "v1", "j", {"tfReplicaSpecs": {"Worker": role("TFJob")}})
        await client.create(TFJOBS, job, namespace=ns)
        await reaches(client, TFJOBS, Key(ns, "j"), "Running")
