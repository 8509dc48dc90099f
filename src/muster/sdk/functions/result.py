"""`job.result()`: wait for the job, check that the result is its own, then load it.

The order matters: whoever may write Secrets in the namespace can write this result too, and a
pickle runs code. Nothing is unpickled that the job's key does not vouch for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.errors import JobFailed, ResultError, UsageError
from kubekit.objects.kinds import PODS, SECRETS
from kubekit.objects.meta import Key
from muster.jobs.parse import parse_job
from muster.sdk.functions import outcome, result_keys
from muster.sdk.functions.job_objects import FUNCTION, result_secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod, Secret
    from kubekit.objects.meta import Raw
    from muster.client.home import Home
    from muster.jobs.job import Job as ParsedJob
    from muster.sdk.duration import Duration
    from muster.sdk.functions.result_keys import ResultKey
    from muster.sdk.job import Job


def result_of(
    job: Job,
    connect: Callable[[], BlockingClient],
    home: Home | None,
    timeout: Duration | None,
) -> Any:
    """What rank 0 of the job returned; raises what it raised.

    `home` is that of the job's local cluster, by default the user's own.
    """
    raw = job.manifest()
    key = _key_of(raw, home)
    failure: JobFailed | None = None
    try:
        job.wait(timeout)
    except JobFailed as error:
        failure = error
    with connect() as client:
        parsed = parse_job(raw)
        secret = client.find(SECRETS, Key(job.namespace, result_secret(job.name)))
        pod = _rank_0_pod(client, parsed)
    return _deliver(parsed, secret, pod, key, failure)


def _key_of(raw: Raw, home: Home | None) -> ResultKey:
    """The key of a job that runs a function."""
    name = raw["metadata"]["name"]
    if FUNCTION not in (raw["metadata"].get("annotations") or {}):
        raise UsageError(
            f"the job {name} runs a command, so it has no result",
            hint="Only jobs of muster.run have one; logs() has the output of the others.",
        )
    key = result_keys.find(str(raw["metadata"]["uid"]), home)
    if key is None:
        raise ResultError(
            f"the result of {name} cannot be checked here: its key is with the user who called "
            "muster.run, on that machine, and nowhere else",
            hint="Call result() there. logs() works everywhere.",
        )
    return key


def _rank_0_pod(client: BlockingClient, job: ParsedJob) -> Pod | None:
    """The pod in which rank 0 ran, if it still exists."""
    name = next(row.name for row in job.replicas() if job.is_rank_0(row.role, row.index))
    pod = client.find(PODS, Key(job.namespace, name))
    if pod is None or job.uid not in (row.uid for row in pod.metadata.owner_references):
        return None
    return pod


def _deliver(
    job: ParsedJob,
    secret: Secret | None,
    pod: Pod | None,
    key: ResultKey,
    failure: JobFailed | None,
) -> Any:
    opened = outcome.open_result(secret.data, job.uid, key) if secret is not None else None
    if opened is None:
        raise failure or ResultError(
            f"the job {job.name} succeeded, and there is no result"
            if secret is not None
            else f"the result of {job.name} is gone: secret/{result_secret(job.name)} was deleted",
            hint="Rank 0 ended without returning, for instance by os._exit." if secret else "",
        )
    is_mpi = job.kind == "MPIJob"
    outcome.check_attempt(opened[0], pod, restarts_inside=not is_mpi)
    others = [row.name for row in job.replicas() if not job.is_rank_0(row.role, row.index)]
    return outcome.deliver(
        *opened,
        shared_dir=key.shared_dir,
        failure=failure,
        # mpirun stops all ranks when one fails, and nothing says which was the first.
        others=() if is_mpi else others,
    )
