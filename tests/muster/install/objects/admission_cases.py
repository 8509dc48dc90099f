"""Jobs for the admission policy: good ones, bad ones, and bad ones that only the operator reports.

The third sort is here so that a change of either side is noticed.
"""

from __future__ import annotations

import copy
from typing import Any

from kubekit.objects.meta import Raw
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from tests.muster.jobs.builders import CONTAINERS, manifest, template
from tests.muster.jobs.test_rejected_manifests import BAD as REJECTED

TWO = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}
OWN = {"spec": {"containers": [{"name": "side", "image": "i"}, {"name": "main", "image": "i"}]}}


def role(kind: str = "TFJob", **fields: Any) -> Raw:
    return {"template": template(CONTAINERS[kind]), **fields}


def job(kind: str = "TFJob", roles: Raw | None = None, name: str = "j", **spec: Any) -> Raw:
    """A job of this kind, by default with the roles that it needs."""
    needed = JOB_KIND_BY_NAME[kind].required or ("Worker",)
    written = roles if roles is not None else {name: role(kind) for name in needed}
    return manifest({JOB_KIND_BY_NAME[kind].replicas_field: written, **spec}, kind, name=name)


def tf(*roles: str, name: str = "j", **fields: Any) -> Raw:
    """A TFJob with these roles, all of which have these fields."""
    return job(roles={written: role(**fields) for written in roles}, name=name)


def first_version(*roles: Raw, name: str = "j") -> Raw:
    return manifest({"replicaSpecs": list(roles)}, name=name)


def single(template: Any = None, name: str = "j", **spec: Any) -> Raw:
    given = (
        {"spec": {"containers": [{"name": "m", "image": "i"}]}} if template is None else template
    )
    return manifest({"template": given, "replicas": 2, **spec}, "MPIJob", name=name)


def containers(*rows: Raw) -> Raw:
    return {"spec": {"containers": list(rows)}}


_LABEL = 63
_WORKER, _TENTH, _LAUNCHER = len("-worker-0"), len("-worker-10"), len("-launcher-xxxxx")

GOOD: dict[str, Raw] = {
    **{f"a {kind}": job(kind) for kind in JOB_KIND_BY_NAME},
    "roles in any letter case": tf("WORKER", "ps", "Chief"),
    "fields of a role in any letter case": job(
        roles={"Worker": {"Replicas": 2, "RestartPolicy": "Never", "Template": template()}}
    ),
    "replicas in any letter case": manifest({"TFReplicaSpecs": {"Worker": role()}}),
    "no replicas": tf("Worker", replicas=0),
    "an empty restart policy": tf("Worker", restartPolicy=""),
    **{
        f"restart policy {word}": tf("Worker", restartPolicy=word)
        for word in ("Always", "OnFailure", "Never", "ExitCode")
    },
    **{
        f"clean pod policy {word}": job(runPolicy={"cleanPodPolicy": word})
        for word in ("All", "Running", "None", "")
    },
    "a policy that the nested one overrides": job(
        cleanPodPolicy="Some", runPolicy={"cleanPodPolicy": "All"}
    ),
    "one container of another name": tf("Worker", template=template("trainer")),
    "two containers, one of the name": tf(
        "Worker",
        template=containers({"name": "a", "image": "i"}, {"name": "tensorflow", "image": "i"}),
    ),
    "an MPIJob with containers of any name": job(
        "MPIJob", {"Launcher": {"template": OWN}, "Worker": {"template": OWN}}
    ),
    "an MPIJob of v2beta1": job("MPIJob", mpiImplementation="Intel", slotsPerWorker=2),
    "an MPIJob with one template": single(),
    "the array of the first version": first_version(
        {"tfReplicaType": "MASTER", **role()}, {"tfReplicaType": "WORKER", **role(replicas=3)}
    ),
    "an array whose first role has no type": first_version(role()),
    "the longest name": tf("Worker", name="x" * (_LABEL - _WORKER)),
    "the longest name of an MPIJob": job("MPIJob", name="x" * (_LABEL - _LAUNCHER)),
    "numbers of zero": job(
        runPolicy={"backoffLimit": 0, "ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 0}
    ),
    "as many replicas as are allowed": tf("Worker", replicas=10_000),
    "a PyTorchJob without a master": job("PyTorchJob", {"Worker": role("PyTorchJob", replicas=3)}),
    "another cluster's": job(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}),
    "our own, by name": job(runPolicy={"managedBy": "kubeflow.org/training-operator"}),
    "an unknown field": job(somebodyElses={"replicas": -1}),
}

BAD: dict[str, Raw] = {
    **{f"a {kind} without replicas": manifest({}, kind) for kind in JOB_KIND_BY_NAME},
    **{f"a {kind} without roles": job(kind, {}) for kind in JOB_KIND_BY_NAME},
    **{
        f"a {kind} with an unknown role": job(kind, {"Boss": role(kind)})
        for kind in JOB_KIND_BY_NAME
    },
    "an array without roles": first_version(),
    "an array with an unknown role": first_version({"tfReplicaType": "BOSS", **role()}),
    "negative replicas": tf("Worker", replicas=-1),
    "negative replicas in another letter case": job(
        roles={"worker": {"Replicas": -3, "template": template()}}
    ),
    "negative replicas in an array": first_version(
        role(), {"tfReplicaType": "PS", **role(replicas=-2)}
    ),
    "more replicas than a number holds": tf("Worker", replicas=2**31),
    "an unknown restart policy": tf("Worker", restartPolicy="Sometimes"),
    "an unknown restart policy in an array": first_version(role(restartPolicy="sometimes")),
    "no template": job(roles={"Worker": {"replicas": 1}}),
    "an empty role": job(roles={"Worker": None}),
    "no containers": tf("Worker", template=containers()),
    "no containers of an MPIJob's one template": single({"spec": {}}),
    "a container without a name": tf("Worker", template=containers({"image": "i"})),
    "a container without an image": tf(
        "Worker", template=containers({"name": "tensorflow", "image": "i"}, {"name": "b"})
    ),
    **{
        f"a {kind} without the container that trains": job(kind, {"Worker": {"template": TWO}})
        for kind in ("TFJob", "PyTorchJob", "JAXJob")
    },
    "an unknown clean pod policy": job(runPolicy={"cleanPodPolicy": "Some"}),
    "an unknown clean pod policy under spec": job(cleanPodPolicy="all"),
    "an unknown clean pod policy of the first version": job(cleanupPodPolicy="some"),
    **{
        f"{field} is negative": job(runPolicy={field: -1})
        for field in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    },
    "a negative limit under spec": job(backoffLimit=-5),
    "a limit that is too large": job(runPolicy={"backoffLimit": 2**31}),
    **{
        f"{field} is negative": job(runPolicy={"schedulingPolicy": {field: -1}})
        for field in ("minAvailable", "scheduleTimeoutSeconds")
    },
    "an unknown success policy": job(successPolicy="Most"),
    "negative slots": job("MPIJob", slotsPerWorker=-1),
    "an unknown MPI": job("MPIJob", mpiImplementation="LAM"),
    "an unknown time for the launcher": job("MPIJob", launcherCreationPolicy="Soon"),
    "a chief and a master": tf("Chief", "Master"),
    "an MPIJob without a launcher": job("MPIJob", {"Worker": role("MPIJob")}),
    "two launchers": job("MPIJob", {"Launcher": role("MPIJob", replicas=2)}),
    "no master": job("PyTorchJob", {"Master": role("PyTorchJob", replicas=0)}),
    "two chiefs": tf("Chief", replicas=2),
    "too many replicas": tf("Worker", "PS", replicas=9_000),
    "a name that is too long": tf("Worker", name="x" * (_LABEL - _WORKER + 1)),
    "a name that is too long for the tenth replica": tf(
        "Worker", name="x" * (_LABEL - _TENTH + 1), replicas=11
    ),
    "a name that is too long for a launcher": job("MPIJob", name="x" * (_LABEL - _LAUNCHER + 1)),
    "a name that is too long for one template": single(name="x" * (_LABEL - _LAUNCHER + 1)),
    "a name that is too long for an array": first_version(
        {"tfReplicaType": "EVALUATOR", **role()}, name="x" * 60
    ),
    "a name with dots": tf("Worker", name="with.dots"),
    "a name that begins with a digit": tf("Master", "Worker", name="0day"),
    "a name with a digit, of an MPIJob": job("MPIJob", name="0day"),
}

OPERATOR_ONLY: dict[str, Raw] = {
    "an unknown manager": job(runPolicy={"managedBy": "example.com/mine", "backoffLimit": -1}),
    "a role twice": tf("Worker", "worker"),
    "replicas in two places": manifest(
        {"tfReplicaSpecs": {"Worker": role()}, "replicaSpecs": [role()]}
    ),
    "a field in another letter case": job(RunPolicy={}),
    "a port that is none": tf(
        "Worker",
        template=containers({"name": "tensorflow", "image": "i", "ports": [{"containerPort": 0}]}),
    ),
    "a relative folder": job("MPIJob", sshAuthMountPath="ssh"),
    "one template without a size": single(replicas=None),
    "more workers than maxReplicas": job(
        "PyTorchJob",
        {"Worker": role("PyTorchJob", replicas=3)},
        elasticPolicy={"maxReplicas": 2},
    ),
}

MISSPELT: dict[str, Raw] = {
    "replicas misspelt": manifest({"tfReplicaSpec": {"Worker": role()}}),
    "replicas of another kind": manifest({"pytorchReplicaSpecs": {"Worker": role()}}),
}
"""Both reject these; only `parse` finds the field that was meant."""

ANYTHING: list[Raw] = [manifest(copy.deepcopy(spec)) for spec, _ in REJECTED]
"""What the policy rejects of these, `parse` must reject too."""
