"""The table of job fields: name, type and description of every field of spec and status.

Everything that must know a field reads this table. The CRDs are built from it, so `kubectl explain`
prints it. The parser in `muster.jobs` takes the names from it, and `unknown_fields` compares
manifests with it.

All versions of a kind have the same fields: without a conversion webhook the API server shows an
object of one version in every other version, and Muster recognises the form by its fields. An
object preserves the fields that the table does not have. A pod template has no fields here: they
depend on the version of Kubernetes, and all of them in every version of a CRD would exceed the size
that `kubectl apply` accepts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kubekit.errors import MusterError, UsageError

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

Fields = dict[str, "Raw"]
"""Schemas by the names of fields."""

PRESERVE = "x-kubernetes-preserve-unknown-fields"


class InvalidJob(MusterError):
    """A job manifest that cannot be parsed."""

    def __init__(self, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message, hint=hint)
        self.field = field

    def in_file(self, source: str) -> UsageError:
        """The error of a command that read the manifest from this file."""
        return UsageError(f"{source}: {self}", hint=self.hint)

    @property
    def with_hint(self) -> str:
        """The problem and its solution, in one line."""
        return f"{self}; {self.hint}" if self.hint else str(self)


def _field(type_: str, description: str, **rest: Any) -> Raw:
    return {"type": type_, "description": description, **rest}


_text = partial(_field, "string")
_number = partial(_field, "integer")
_switch = partial(_field, "boolean")


def _object(description: str, fields: Fields) -> Raw:
    return _field("object", description, **{PRESERVE: True, "properties": fields})


def _free(description: str) -> Raw:
    """An object of any fields."""
    return _field("object", description, **{PRESERVE: True})


# A null field counts as missing; null values of maps and lists must be declared nullable.
def _map(description: str, values: Raw) -> Raw:
    return _field("object", description, additionalProperties={**values, "nullable": True})


def _array(description: str, items: Raw) -> Raw:
    return _field("array", description, items={**items, "nullable": True})


# Amounts may be whole numbers, fractions or text, and no type of a CRD is all three.
_AMOUNTS = {PRESERVE: True}


# -- spec ----------------------------------------------------------------------------------------

TEMPLATE = _free(
    "The template of the pods, as in a Deployment: metadata and spec. `kubectl explain pod.spec` "
    "describes its fields."
)

ROLE: Fields = {
    "replicas": _number("Number of pods of the role. 1 by default."),
    "restartPolicy": _text(
        "When a pod that ended is started again: Always, OnFailure, Never or ExitCode, which "
        "restarts after exit codes from 128 on. It is used instead of the template's."
    ),
    "template": TEMPLATE,
}
ARRAY_ROLE: Fields = {
    "tfReplicaType": _text("The role: MASTER, CHIEF, WORKER, PS or EVALUATOR."),
    "tfPort": _number("The port of the role's TensorFlow servers. 2222 by default."),
}


def _roles(names: str, **more: Raw) -> Raw:
    role = _object("The replicas of one role.", {**ROLE, **more})
    return _map(f"The replicas of each role. Roles are {names}, in any letter case.", role)


_POLICY: Fields = {
    "cleanPodPolicy": _text(
        "Which pods are deleted when the job ends: All, Running or None (the default)."
    ),
    "ttlSecondsAfterFinished": _number(
        "Seconds after its end when the job is deleted. It stays if the field is missing."
    ),
    "activeDeadlineSeconds": _number(
        "Seconds from the start of the job after which it fails and its pods are deleted."
    ),
    "backoffLimit": _number("Number of restarts of pods after which the job fails."),
    "suspend": _switch("Whether the job waits without pods until the field is false again."),
    "managedBy": _text(
        "The controller of the job: empty or kubeflow.org/training-operator for this operator "
        "(an MPIJob may name kubeflow.org/mpi-operator), kueue.x-k8s.io/multikueue for another "
        "cluster."
    ),
}
SCHEDULING_POLICY: Fields = {
    "minAvailable": _number("Number of pods that start together. All pods by default."),
    "queue": _text("The queue of the gang."),
    "minResources": _map("The resources that the gang needs in total.", _AMOUNTS),
    "priorityClass": _text("The PriorityClass of the gang."),
    "scheduleTimeoutSeconds": _number("Seconds for which the gang may wait for its members."),
}
RUN_POLICY: Fields = {
    **_POLICY,
    "schedulingPolicy": _object("How the pods are scheduled as a gang.", SCHEDULING_POLICY),
}
_SPEC: Fields = {
    "runPolicy": _object("The policies of the job; they override those under spec.", RUN_POLICY),
    **{
        name: {**schema, "description": f"{schema['description']} As in runPolicy."}
        for name, schema in _POLICY.items()
    },
    "cleanupPodPolicy": _text("cleanPodPolicy as v1alpha1 spells it; its default is All."),
    "schedulerName": _text("The scheduler of all pods; it overrides the templates'."),
}
ELASTIC_POLICY: Fields = {
    "minReplicas": _number("Minimum number of workers. The number of workers by default."),
    "maxReplicas": _number("Maximum number of workers. The number of workers by default."),
    "rdzvBackend": _text("The rendezvous backend of torchrun. c10d by default."),
    "rdzvPort": _number("The port of the rendezvous. The port of the workers by default."),
    "rdzvHost": _text("The host of the rendezvous. The first worker by default."),
    "rdzvId": _text("The identifier of the rendezvous. The name of the job by default."),
    "rdzvConf": _array(
        "More options of the rendezvous.",
        _object("One option.", {"key": _text("Its name."), "value": _text("Its value.")}),
    ),
    "standalone": _switch("Whether torchrun starts a separate rendezvous in each pod."),
    "nProcPerNode": _number("Processes per pod. Deprecated: use spec.nprocPerNode."),
    "maxRestarts": _number("How often torchrun restarts the processes of a pod."),
    "metrics": _array("Metrics of an autoscaler. Ignored: none is created.", _free("One metric.")),
}
_CHIEF: Fields = {
    "replicaName": _text("The role. MASTER by default."),
    "replicaIndex": _number("The index of the replica in its role. 0 by default."),
}
_TENSORFLOW: Fields = {
    "tfReplicaSpecs": _roles(
        "Chief, Master, Worker, PS and Evaluator", tfPort=ARRAY_ROLE["tfPort"]
    ),
    "successPolicy": _text(
        "When the job succeeds: empty for the success of the chief or, without one, of the first "
        "worker; AllWorkers for the success of all workers."
    ),
    "enableDynamicWorker": _switch(
        "Whether the number of workers may change; TF_CONFIG then names no other worker."
    ),
    "replicaSpecs": _array(
        "The roles as a list, the form of v1alpha1.",
        _object("The replicas of one role.", {**ROLE, **ARRAY_ROLE}),
    ),
    "terminationPolicy": _object(
        "The replica that decides the success of the job, in the form of v1alpha1.",
        {"chief": _object("The replica.", _CHIEF)},
    ),
    "tfImage": _text("A field of v1alpha1. Ignored: containers name their images."),
    "RuntimeId": _text("A field that v1alpha1 wrote. Ignored."),
}
_PYTORCH: Fields = {
    "pytorchReplicaSpecs": _roles("Master and Worker"),
    "nprocPerNode": {
        "x-kubernetes-int-or-string": True,
        "nullable": True,
        "description": "Processes per pod: a number, or auto, cpu or gpu. auto by default.",
    },
    "elasticPolicy": _object("How torchrun trains with changing workers.", ELASTIC_POLICY),
}
_JAX: Fields = {"jaxReplicaSpecs": _roles("Worker")}
_MPI: Fields = {
    "mpiReplicaSpecs": _roles("Launcher and Worker"),
    "slotsPerWorker": _number("MPI ranks per worker. 1 by default."),
    "mainContainer": _text("The name of the container in which ranks are started."),
    "sshAuthMountPath": _text(
        "The directory of the ssh keys. With it ranks are started by ssh, without it by exec."
    ),
    "mpiImplementation": _text("OpenMPI (the default), Intel or MPICH."),
    "launcherCreationPolicy": _text(
        "When the launcher is created: AtStartup (the default) or WaitForWorkersReady."
    ),
    "runLauncherAsWorker": _switch("Whether the launcher also runs ranks."),
    "template": {
        **TEMPLATE,
        "description": "One template for launcher and workers, the form of v1alpha1 and arena.",
    },
    "replicas": _number("Number of workers of the one template."),
    "gpus": _number("GPUs of all workers of the one template together."),
    "gpusPerNode": _number("GPUs of one worker; with gpus it gives the number of workers."),
    "processingUnits": _number("As gpus, for the resource of processingResourceType."),
    "processingUnitsPerNode": _number("As gpusPerNode, for processingUnits."),
    "processingResourceType": _text("The resource that is counted. nvidia.com/gpu by default."),
    "launcherOnMaster": _switch("Whether the launcher runs on a master node."),
    "launcherResources": _object(
        "The resources of the launcher of the one template.",
        {
            "limits": _map("The most that it may use.", _AMOUNTS),
            "requests": _map("The amounts that are reserved for it.", _AMOUNTS),
        },
    ),
    "mountsOnLauncher": _switch("Whether the launcher mounts volumes too. true by default."),
}

SPEC_FIELDS: dict[str, Fields] = {
    "TFJob": {**_TENSORFLOW, **_SPEC},
    "MPIJob": {**_MPI, **_SPEC},
    "PyTorchJob": {**_PYTORCH, **_SPEC},
    "JAXJob": {**_JAX, **_SPEC},
}
"""The fields of spec, by kind."""
IGNORED = ("tfImage", "RuntimeId")
"""Fields of spec that are known and have no effect."""


# -- status --------------------------------------------------------------------------------------

_CONDITION: Fields = {
    "type": _text("Created, Running, Restarting, Suspended, Succeeded, Failed or InvalidSpec."),
    "status": _text("True, False or Unknown."),
    "reason": _text("The reason in one word, for programs."),
    "message": _text("The reason in a sentence, for people."),
    "lastUpdateTime": _text("When the condition was written last."),
    "lastTransitionTime": _text("When its status changed last."),
    "observedGeneration": _number("The generation of the job that the condition is about."),
}
_REPLICA_STATUS: Fields = {
    "active": _number("Pods that are pending or running."),
    "succeeded": _number("Pods that ended with success."),
    "failed": _number("Pods that ended with a failure."),
    "selector": _text("The label selector of the pods, for autoscalers."),
    "labelSelector": _free("The label selector as an object. Deprecated."),
}
_COUNTS = _map(
    "The number of pods of each role, by their state.",
    _object("The pods of one role.", _REPLICA_STATUS),
)
_ENDING: Fields = {
    "pod": _text("The name of the pod."),
    "role": _text("Its role, in lower case."),
    "index": _number("Its index in the role. Missing if 0."),
    "container": _text("The container that ended, if the pod has several."),
    "reason": _text("OOMKilled, Evicted and the like. Missing if the exit code says all."),
    "exitCode": _number("The exit code of the container. Missing if the pod itself ended."),
    "signal": _number("The signal that killed the container."),
    "memoryLimit": _text("The memory limit that the container exceeded."),
    "lastLines": _array("The last lines of its log.", _text("A line.")),
}
_FAILURES: Fields = {
    "count": _number("Failures in a row."),
    "at": _text("When it failed last."),
    "last": _object("How it failed last. Missing if another replica of its gang did.", _ENDING),
}
_FAILURE: Fields = {
    "code": _text("ReplicasFailed, NoneSucceeded, or the limit, such as BackoffLimitExceeded."),
    "first": _object("The pod that failed first.", _ENDING),
    "role": _text("The role of the replicas that failed."),
    "count": _number("How many replicas of the role failed."),
    "limit": _text("The number that was exceeded."),
    "failures": _number("How often the job failed before it exceeded the limit."),
    "withoutRetry": _switch("Whether the job only failed because it names no retries."),
    "atOnce": _switch("Whether several replicas failed within seconds, and each counted."),
}
_RESTART: Fields = {
    "code": _text("ReplicasFailed, Interrupted, Preempted, ReplicaGone and the like."),
    "first": _object("The first pod that failed, was interrupted or is gone.", _ENDING),
    "count": _number("How many pods are recreated for that reason."),
    "preempted": _text("By whom pods were preempted."),
}
_UNFINISHED: Fields = {
    "names": _array("Their pods, the first of many.", _text("A name.")),
    "message": _text("A sentence about the first."),
}
_QUOTA_WAIT: Fields = {
    "name": _text("The quota."),
    "needs": _free("What the job needs of the resources that the quota lacked."),
    "limits": _free("What the quota allows of them in all."),
    "priority": _number("The job's priority in the quota's line."),
    "hasPlace": _switch("Whether the job ran before and only replaces pods: it goes first."),
    "since": _text("Since when it is in the line."),
}
_WAITING: Fields = {
    "reason": _text("The reason in one word."),
    "message": _text("The reason in a sentence."),
    "until": _text("When the pods are created again, if that is known."),
    "quota": _object("The ResourceQuota in whose line the job stands.", _QUOTA_WAIT),
    "place": _number("The place in the scheduler's line, from 1; at most half a minute old."),
    "inLine": _number("How many jobs and gangs were in line then."),
}
_FAILED_ATTEMPT: Fields = {
    "podName": _text("The pod."),
    "podUid": _text("Its UID."),
    "container": _text("The container that failed."),
    "attempt": _number("The number of earlier attempts at the container in the same pod."),
}
_LAUNCHER_START: Fields = {
    "podUid": _text("The UID of the launcher's pod."),
    "restarts": _number("The number of earlier attempts in the same pod."),
    "workers": _number("The number of workers when the attempt began."),
}
_STOPPED: Fields = {
    "names": _array("The pods, the first of many.", _text("A name.")),
    "message": _text("A sentence that names the replicas and the cause."),
    "count": _number("How many, if there are more than names."),
}

STATUS_FIELDS: Fields = {
    "conditions": _array("The conditions of the job.", _object("One condition.", _CONDITION)),
    "replicaStatuses": _COUNTS,
    "tfReplicaStatuses": {**_COUNTS, "description": "replicaStatuses as v1alpha2 names them."},
    "startTime": _text("When the operator accepted the job, or resumed it last."),
    "earlierSeconds": _number("Seconds that the job was active before its suspensions."),
    "completionTime": _text("When the job ended."),
    "lastReconcileTime": _text("When another operator worked on the job last."),
    "observedGeneration": _number("The generation of the job that the status is about."),
    "waiting": _object("Why pods wait.", _WAITING),
    "restarts": _number("Restarts that count towards backoffLimit, with those that nodes delay."),
    "unstarted": _number("Counted restarts that the end of the job prevented."),
    "launcherAttempt": _number("The number of the launcher of an MPIJob, from 0."),
    "launcherStart": _object(
        "The running attempt of the launcher of an MPIJob, and the workers that it began with.",
        _LAUNCHER_START,
    ),
    "formed": _switch("Whether all replicas have run at the same time."),
    "failures": _map("Recent failures by replica.", _object("Of one replica.", _FAILURES)),
    "restarted": _map("Counted restarts of containers, by pod.", _number("The restarts.")),
    "whole": _map("Replicas by role when all ran last.", _number("The replicas.")),
    "unclaimed": _array("Pods with the job's labels that it does not own.", _text("A name.")),
    "earlierRestarts": _map(
        "Restarts of a replica before its present pod, by replica.", _number("The restarts.")
    ),
    "failure": _object("Why the job failed.", _FAILURE),
    "restart": _object("Why the job restarts, while it does.", _RESTART),
    "unfinished": _object("Replicas that had failed when the job succeeded.", _UNFINISHED),
    "stopped": _object("Pods that still trained when the job's success ended them.", _STOPPED),
    "failedAttempt": _object("The attempt whose failure ended the job.", _FAILED_ATTEMPT),
    "preempted": _text("By whom pods were preempted, until all pods run again."),
    "replaced": _array("Failed pods that are being replaced.", _text("A UID.")),
    "phase": _text("The phase, for clients of v1alpha1: Creating, Running, CleanUp, Failed, Done."),
    "state": _text("The state, for clients of v1alpha1: Unknown, Running, Succeeded, Failed."),
    "reason": _text("The reason of a failure, for clients of v1alpha1."),
}
"""The fields of status, of every kind."""
