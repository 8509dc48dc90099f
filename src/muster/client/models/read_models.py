"""Reading the models of a job through a small pod, with the rights of the user, and listing them.

The pod prints what it found. The user's own client writes it to the ConfigMap in which models are
listed. The pod is removed, whatever happens: by us, else by the cluster (`reader_job`).
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.errors import MusterError
from kubekit.objects.kinds import BATCH_JOBS, CONFIG_MAPS, EVENTS, PODS, decoder_of
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.request_errors import AlreadyExists, Conflict, Forbidden, NotFound
from muster.client.models import reader_job, short_lived_pod
from muster.client.models.catalog import PublishedModel
from muster.contract import exported_models
from muster.contract.exported_models import Model

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from muster.client.models.reader_job import Place

MARK = "muster.dev/versions "
"""The start of the line with the result."""
_ERROR = "error: "
_MAX_LOG = 4 << 20


async def read_models(client: Client, job: Raw, image: str) -> PublishedModel:
    """Read the model directory of a job in its volume, and list what is there.

    The list is deleted only if the reader saw all of the directory and found nothing. Versions
    that are not complete are an error, after those that are have been listed.
    """
    place, namespace = reader_job.find_place(job), key_of(job).namespace
    lines = (await _run(client, place, namespace, image)).splitlines()
    found = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    if not found:
        raise MusterError(f"the models were not read: {failure_in(lines)}")
    model = _with_maker(decoder_of(Model).decode(found[-1]), place, job)
    published = await _publish(client, model, namespace)
    if any(line.startswith(_ERROR) for line in lines):
        names = ", ".join(row.version for row in model.versions)
        raise MusterError(
            f"not all models are listed: {failure_in(lines)}",
            hint=f"Listed: {names}. Read again when the others are complete.",
        )
    return published


def failure_in(log: Sequence[str]) -> str:
    """Why a reader printed no versions: its error, without the hints that follow it."""
    errors = [line.removeprefix(_ERROR) for line in log if line.startswith(_ERROR)]
    return (errors or [*log] or ["no answer"])[-1]


async def _run(client: Client, place: Place, namespace: str, image: str) -> str:
    """The log of a reader, which is gone afterwards."""
    async with _started(client, place, namespace, image) as job:
        pod = await _ended(client, job)
        return await short_lived_pod.read_log(
            client, pod.metadata.key, reader_job.CONTAINER, _MAX_LOG
        )


@contextlib.asynccontextmanager
async def _started(
    client: Client, place: Place, namespace: str, image: str
) -> AsyncGenerator[Raw, None]:
    pods = (await client.list(PODS.read_as(dict), namespace)).items
    beside = reader_job.pod_with_volume(place, pods)
    body = reader_job.reader_job(place, namespace, image, beside)
    try:
        async with short_lived_pod.created(client, BATCH_JOBS, body) as job:
            yield job
    except AlreadyExists:
        raise Conflict(
            f"the models of {place.maker.name} are being read already",
            status=409,
            hint="They are listed when the reader has finished, within two minutes.",
        ) from None


async def _ended(client: Client, job: Raw) -> Pod:
    """Wait for the end of the reader's pod."""
    key = key_of(job)

    async def find() -> Pod | str:
        pods = await client.list(PODS, key.namespace, labels=f"job-name={key.name}")
        return pods.items[0] if pods.items else await _why_no_pod(client, job)

    hint = "Its image is Muster's own; --image names another."
    name, seconds = f"the reader {key.name}", reader_job.DEADLINE_SECONDS
    return await short_lived_pod.wait_until("finished", name, find, seconds, hint)


async def _why_no_pod(client: Client, job: Raw) -> str:
    """Why the Job controller could not create the pod; MusterError if a rule forbids it."""
    key, uid = key_of(job), job["metadata"]["uid"]
    fields = f"involvedObject.uid={uid},reason=FailedCreate"
    try:
        events = (await client.list(EVENTS, key.namespace, fields=fields)).items
    except Forbidden:  # the user may not read events
        return ""
    message = events[-1].message if events else ""
    if "is forbidden" in message:  # by a quota or by pod security: not before somebody acts
        raise MusterError(f"the reader {key.name} cannot start: {message}")
    return message


async def _publish(client: Client, model: Model, namespace: str) -> PublishedModel:
    key = Key(namespace, exported_models.config_map_name(model.job.kind, model.job.name))
    body = exported_models.manifest(model, *key)
    if not model.versions:
        with contextlib.suppress(NotFound):
            await client.delete(CONFIG_MAPS, key)
        return PublishedModel(key, model)
    try:
        await client.patch(CONFIG_MAPS, key, body)
    except NotFound:
        await client.create(CONFIG_MAPS, body)
    return PublishedModel(key, model)


def _with_maker(found: Model, place: Place, job: Raw) -> Model:
    """The versions that a reader found as a model of this job.

    The reader does not know who wrote a version: this job did if it ran at that time.
    """
    began = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    versions = tuple(
        replace(row, job_uid=place.maker.uid if row.created and row.created >= began else "")
        for row in found.versions
    )
    return replace(
        found, name=place.name, job=place.maker, directory=place.directory, versions=versions
    )
