"""Using a model in a short-lived pod: a prediction, or an archive of a version's files.

A prediction is read from the pod's log, an archive from an exec stream.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import PODS, Kind
from kubekit.objects.meta import Key, Raw, key_of, mapping
from kubekit.request_errors import NotFound
from muster.client.models import runner_pod, short_lived_pod
from muster.client.models.predict_program import MARK, MAX_OUTPUT
from muster.contract.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from muster.client.models.catalog import PublishedModel
    from muster.contract.exported_models import Version

MAX_INPUT = 64 << 10
"""Bytes: the input is an argument of a program."""
_LIBRARY_HINT = "Install it in the environment or image of the job; the pod uses the same."
_START_SECONDS = 60
_RUN_SECONDS = 120
_DOWNLOAD_SECONDS = 3600


async def predict(client: Client, published: PublishedModel, version: Version, text: str) -> Any:
    """The answer of a version of a model to an input, which is JSON."""
    _check_input(text)
    folder = runner_pod.version_folder(published, version)
    command = runner_pod.python_command("predict_program", folder, version.format, text)
    async with _running(client, published, command, _RUN_SECONDS) as pod:
        ended = await _until(client, pod, _RUN_SECONDS, "finished")
        log = await short_lived_pod.read_log(client, pod, runner_pod.CONTAINER, 2 * MAX_OUTPUT)
    lines = [line for line in log.splitlines() if line.startswith(MARK)]
    if not lines:
        reason = ended.status.reason or "; ".join(log.splitlines()[-3:]) or ended.status.phase
        raise MusterError(f"the model gave no prediction: {reason}")
    try:
        result = mapping(msgspec.json.decode(lines[-1].removeprefix(MARK)))
    except msgspec.MsgspecError:
        result = {}
    if "prediction" not in result:
        error = result.get("error") or "its answer is not JSON"
        hint = _LIBRARY_HINT if "missing" in result else ""
        raise MusterError(f"the model gave no prediction: {error}", hint=hint)
    return result["prediction"]


def _check_input(text: str) -> None:
    if len(text.encode(errors="replace")) > MAX_INPUT:
        raise UsageError(f"the input is larger than {MAX_INPUT} bytes")
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        hint = """For example {"inputs": [[1, 2, 3]]}"""
        raise UsageError(f"the input is not JSON: {error}", hint=hint) from None


async def download(
    client: Client, published: PublishedModel, version: Version
) -> AsyncGenerator[bytes, None]:
    """The files of a version as a tar archive, in chunks."""
    folder = runner_pod.version_folder(published, version)
    wait = ["sh", "-c", f"sleep {_DOWNLOAD_SECONDS}"]
    async with _running(client, published, wait, _DOWNLOAD_SECONDS) as pod:
        await _until(client, pod, _START_SECONDS, "running")
        command = runner_pod.python_command("archive_program", folder)
        errors = b""
        async with client.exec(pod, command, container=runner_pod.CONTAINER) as session:
            async for channel, data in session:
                if channel == 1:
                    yield data
                else:
                    errors = (errors + data)[-4096:]
        if session.exit_code:
            lines = errors.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit code {session.exit_code}"
            raise MusterError(f"the files cannot be read: {reason}")


@asynccontextmanager
async def _running(
    client: Client, published: PublishedModel, command: list[str], seconds: int
) -> AsyncGenerator[Key, None]:
    """A pod of the model's job that runs this command; it is deleted at the end."""
    owner = await _owner(client, published)
    body = runner_pod.runner_pod(published, owner, command, seconds=seconds)
    async with short_lived_pod.created(client, PODS.read_as(dict), body) as pod:
        yield key_of(pod)


async def _owner(client: Client, published: PublishedModel) -> Raw:
    job = published.model.job
    if not (job.kind and job.name):
        raise MusterError(f"the ConfigMap {published.key} does not name the job of the model")
    known = JOB_KIND_BY_NAME.get(job.kind)
    kind: Kind[Raw] = known.resource if known else Kind.of(job.api_version, job.kind, dict)
    try:
        owner = await client.get(kind.read_as(dict), Key(published.namespace, job.name))
    except NotFound:
        owner = {}
    owner = {**owner, "kind": job.kind} if owner else {}
    if not owner or not runner_pod.names_directory(owner, published.model.directory):
        raise NotFound(
            f"the job {job.name} that made the model is gone, and with it the description of the "
            "volumes and programs that a pod needs",
            hint=f"The files are in {published.model.directory} of the job's volume. "
            "Submit the job again to use the model from here.",
        )
    return owner


async def _until(
    client: Client, pod: Key, seconds: float, state: Literal["running", "finished"]
) -> Pod:
    async def find() -> Pod:
        return await client.get(PODS, pod)

    return await short_lived_pod.wait_until(state, f"the pod {pod.name}", find, seconds)
