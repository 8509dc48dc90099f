"""`job.result()`: wait for the job, check that the result is its own, then load it.

The order matters: whoever may write Secrets in the namespace can write this result too, and a
pickle runs code. `open_result` and `check_attempt` come first: nothing is unpickled that the job's
key does not vouch for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import pickle
from typing import TYPE_CHECKING, Any

from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import PODS, SECRETS
from kubekit.objects.meta import Key, Raw
from muster.client.jobs.waiting import JobFailed
from muster.jobs.parse import parse_job
from muster.sdk.functions import result_keys
from muster.sdk.functions.job_objects import FUNCTION, result_secret
from muster.sdk.functions.standalone import sealed_record
from muster.sdk.functions.standalone.sealed_record import RAISED, RETURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod, Secret
    from muster.client.home import Home
    from muster.jobs.job import Job as ParsedJob
    from muster.sdk.arguments import Duration
    from muster.sdk.functions.result_keys import ResultKey
    from muster.sdk.job import Job


class RemoteError(JobFailed):
    """Rank 0 of a function raised an exception that this process cannot rebuild."""


class ResultError(MusterError):
    """The value of a function that ran as a job cannot be delivered."""


class UntrustedResult(ResultError):
    """The result was not written by the job that it is said to be of."""


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
            f"the result of {name} cannot be checked here: its key is only on the machine of the "
            "user who called muster.run",
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
    opened = open_result(secret.data, job.uid, key) if secret is not None else None
    if opened is None:
        raise failure or ResultError(
            f"the job {job.name} succeeded, but there is no result"
            if secret is not None
            else f"the result of {job.name} is gone: secret/{result_secret(job.name)} was deleted",
            hint="Rank 0 ended without returning, for instance by os._exit." if secret else "",
        )
    is_mpi = job.kind == "MPIJob"
    check_attempt(opened[0], pod, restarts_inside=not is_mpi)
    others = [row.name for row in job.replicas() if not job.is_rank_0(row.role, row.index)]
    return deliver(
        *opened,
        shared_dir=key.shared_dir,
        failure=failure,
        # mpirun stops all ranks when one fails, and nothing says which was the first.
        others=() if is_mpi else others,
    )


CLOCK_SECONDS = 2.0
"""A node writes the start of a container in whole seconds."""


class RemoteTraceback(Exception):
    """The traceback of rank 0, as the cause of the exception that it raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def open_result(
    data: dict[str, str], job_uid: str, key: ResultKey
) -> tuple[dict[str, Any], bytes] | None:
    """Header and body of the result in a Secret; None if it has none.

    UntrustedResult if the result was not sealed with the job's key for this job.
    """
    if not data.get("result"):
        return None
    try:
        content = base64.b64decode(data["result"], validate=True)
        code = base64.b64decode(data.get("code") or "", validate=True).decode()
        return sealed_record.open_record(key.key, job_uid, content, code)
    except (binascii.Error, UnicodeDecodeError, sealed_record.Forged) as error:
        raise UntrustedResult(
            f"the result is refused and was not loaded: {error}",
            hint="Somebody who may write Secrets in the namespace has changed it. Run the job "
            "again, and check who has that right.",
        ) from error


def check_attempt(header: dict[str, Any], pod: Pod | None, *, restarts_inside: bool) -> None:
    """Refuse the result of an earlier attempt, as far as rank 0's pod still tells.

    `restarts_inside`: rank 0 is the main process of its container, so that it restarts with it.
    """
    if pod is None:
        return
    state = next((row.state for row in pod.status.container_statuses), None)
    end = state.terminated if state is not None else None
    began = end.started_at.timestamp() if end is not None and end.started_at else 0.0
    is_earlier = restarts_inside and header.get("started", 0.0) < began - CLOCK_SECONDS
    if header.get("pod") != pod.metadata.uid or is_earlier:
        raise UntrustedResult(
            "the result is refused and was not loaded: it is that of an earlier attempt of rank 0",
            hint="Somebody who may write Secrets in the namespace has put it back. Run the job "
            "again, and check who has that right.",
        )


def deliver(
    header: dict[str, Any],
    body: bytes,
    *,
    shared_dir: str = "",
    failure: JobFailed | None = None,
    others: Collection[str] = (),
) -> Any:
    """The value that rank 0 returned; raises its exception or the sentence of the program.

    `failure` is that of the job, if it failed. If one of the `others`, replicas without rank 0,
    failed first, that is the cause: rank 0 then often raises only because its peer is gone.
    """
    if header["outcome"] == RETURNED:
        if failure is not None:
            raise failure
        return _value(_body(header, body, shared_dir))
    if header["outcome"] == RAISED:
        error = _exception(header, body, failure)
        error.__cause__ = RemoteTraceback(header["traceback"])
        if failure is not None and failure.replica in others and not _is_same(header, failure):
            raise failure from error
        raise error
    raise ResultError(header["text"]) from failure


def _is_same(header: dict[str, Any], failure: JobFailed) -> bool:
    """Whether the replica that failed first raised what rank 0 raised."""
    last = header["traceback"].rstrip().rpartition("\n")[2]
    return last in failure.last_lines


def _body(header: dict[str, Any], body: bytes, shared_dir: str) -> bytes:
    """The body, from the shared directory if the record names a file there."""
    if "file" not in header:
        return body
    path = os.path.join(shared_dir, header["file"])
    try:
        with open(path, "rb") as file:
            body = file.read()
    except OSError as error:
        raise ResultError(f"the result is in {path}, which cannot be read: {error}") from error
    if hashlib.sha256(body).hexdigest() != header["sha256"]:
        raise UntrustedResult(f"{path} is not the file that rank 0 wrote, and was not loaded")
    return body


def _value(body: bytes) -> Any:
    try:
        return pickle.loads(body)
    except Exception as error:
        missing = isinstance(error, ImportError)
        raise ResultError(
            f"the value that rank 0 returned cannot be loaded here: {error}",
            hint="Install the package, or return plain values or NumPy arrays." if missing else "",
        ) from error


def _exception(header: dict[str, Any], body: bytes, failure: JobFailed | None) -> Exception:
    """The exception of rank 0, or its text if this process cannot rebuild it."""
    if body:
        try:
            error = pickle.loads(body)
        except Exception:  # noqa: BLE001 - of the class of the exception, whatever it is
            error = None
        if isinstance(error, Exception):
            return error
    text = f"rank 0 raised {header['type']}: {header['text']}".removesuffix(": ")
    known = failure or JobFailed("")
    return RemoteError(
        text,
        hint=known.hint,
        job=known.job,
        replica=known.replica,
        exit_code=known.exit_code,
        last_lines=tuple(header["traceback"].splitlines()[-20:]),
    )
