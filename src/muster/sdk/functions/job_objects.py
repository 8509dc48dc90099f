"""The objects of a job that runs a function: two Secrets, and rank 0's right to one of them.

All are companions of the job: created with it or not at all, and deleted with it. Replicas get the
function as a volume. Only the pod of rank 0 has the service account that may write the result: in
a role with one replica the template names the account; in a role with several, which share their
template, the operator gives it to replica 0 (the annotation `muster.dev/rank-0-service-account`).
"""

from __future__ import annotations

import base64
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubekit.objects.kinds import ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, Kind
from muster.jobs import names
from muster.jobs.build.job_manifest import Bundle
from muster.jobs.parse import parse_job
from muster.sdk.functions.package import FOLDER, PACKAGE

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job

FUNCTION = "muster.dev/function"
"""Annotation of a job that runs a function: the function's name."""
VOLUME = "muster-function"
POD_UID = "MUSTER_POD_UID"


@dataclass(frozen=True)
class FunctionParts:
    """What a job needs to run a function."""

    function: str
    """Its name, for people."""
    namespace: str
    key: bytes = field(repr=False)
    """The key with which rank 0 seals the result."""
    package: bytes | None
    """The package, unless it is in a shared directory."""
    pull_secrets: tuple[Raw, ...] = ()
    """References to the Secrets with which rank 0's account pulls its image."""


def result_secret(job_name: str) -> str:
    """The name of the Secret that gets the result."""
    return f"{job_name}-result"


def with_function(bundle: Bundle, parts: FunctionParts) -> Bundle:
    """The job with the volume, the account and the Secrets of a function."""
    raw = copy.deepcopy(bundle.job)
    name: str = raw["metadata"]["name"]
    metadata = raw["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), FUNCTION: parts.function}
    job = parse_job(raw)
    account = f"{name}-rank-0"
    for role, replicas in raw["spec"][job.job_kind.replicas_field].items():
        if role == "Launcher":
            continue  # it runs mpirun, and no rank
        if job.policy.backoff_limit is None:
            # The caller waits for the result: a replica that raises must not restart without end.
            replicas["restartPolicy"] = "Never"
        spec = replicas["template"]["spec"]
        _mount(spec, f"{name}-function")
        if job.is_rank_0(role, 0):
            if job.count(role) == 1:
                spec |= {"serviceAccountName": account, "automountServiceAccountToken": True}
            else:
                metadata["annotations"][names.RANK_0_ACCOUNT] = account
    return Bundle(raw, (*bundle.companions, *companions(job, account, parts)))


def _mount(spec: Raw, secret: str) -> None:
    volume = {"name": VOLUME, "secret": {"secretName": secret}}
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    main: Raw = spec["containers"][0]
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    main["volumeMounts"] = [*(main.get("volumeMounts") or ()), mount]
    own_uid = {"name": POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    main["env"] = [*(main.get("env") or ()), own_uid]


def companions(job: Job, account: str, parts: FunctionParts) -> tuple[Raw, ...]:
    """The account with its right, the function and the place of its result."""
    secret = result_secret(job.name)
    files = {"key": parts.key} | ({PACKAGE: parts.package} if parts.package is not None else {})
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [secret],
        "verbs": ["get", "patch"],
    }
    subject = {"kind": "ServiceAccount", "name": account, "namespace": parts.namespace}
    role = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": account}
    pulls = {"imagePullSecrets": list(parts.pull_secrets)} if parts.pull_secrets else {}
    return (
        _object(SERVICE_ACCOUNTS, job, account, **pulls),
        _object(ROLES, job, account, rules=[rule]),
        _object(ROLE_BINDINGS, job, account, subjects=[subject], roleRef=role),
        _object(SECRETS, job, secret, type="muster.dev/function-result"),
        # Immutable: a change would only confuse replicas, which check the digest.
        _object(
            SECRETS, job, f"{job.name}-function", type="muster.dev/function", immutable=True,
            data=data,
        ),
    )  # fmt: skip


def _object(kind: Kind[Any], job: Job, name: str, **content: Any) -> Raw:
    labels = {"app": job.job_kind.trainer, "release": job.name, "createdBy": "muster"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
