"""`/models` and `/models/NAMESPACE/NAME`: models that jobs exported; read, try or download them.

The dashboard loads no model and reads no file: all of it runs in pods, through the API, with the
rights of the user, by the functions of `arena models`. All are changes, since they create a pod.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from kubekit.errors import MusterError
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Forbidden, NotFound
from muster.client.models import catalog, model_runs, read_models
from muster.client.models.reader_job import reader_image
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.web.access.request_facts import fields_of
from muster.web.cluster.watched_objects import MODELS
from muster.web.context import POLICY, attachment, cluster_of, page
from muster.web.views.models import (
    ModelPage,
    ModelsView,
    Prediction,
    exporting_jobs,
    model_page,
    models_view,
)

if TYPE_CHECKING:
    from muster.client.models.catalog import PublishedModel
    from muster.contract.exported_models import Version
    from muster.web.cluster.live_cluster import LiveCluster


async def show(request: web.Request) -> web.Response:
    cluster, now = cluster_of(request), datetime.now(UTC)
    informer = await cluster.informer(MODELS)
    config_maps, jobs = tuple(informer.all()), await _unpublished(cluster)

    def view() -> ModelsView:
        published = catalog.published_models(config_maps)
        return models_view(published, now, exporting_jobs(jobs, published))

    return await page(request, "models.html", view, shared=True)


async def _unpublished(cluster: LiveCluster) -> list[Raw]:
    """The jobs whose models nobody lists by themselves: the node of a local cluster does."""
    if await cluster.is_local():
        return []
    try:
        return [job.raw for job in await cluster.jobs()]
    except Forbidden:
        return []


async def read(request: web.Request) -> web.Response:
    """POST: read the model directory of a job in its volume, and list what is there."""
    form, cluster = await fields_of(request), cluster_of(request)
    kind, key = form.get("kind", ""), Key(form.get("namespace", ""), form.get("name", ""))
    raw = (await cluster.job(kind, key)).raw
    raw = {**raw, "kind": kind, "apiVersion": JOB_KIND_BY_NAME[kind].resource.api_version}
    image = await reader_image(cluster.client, request.app[POLICY].reader_image)
    published = await read_models.read_models(cluster.client, raw, image)
    if not published.model.versions:
        raise NotFound(
            f"There is no complete model in {published.model.directory} of {key.name}.",
            hint="A version is a folder with a number as its name, or the directory itself.",
        )
    raise web.HTTPSeeOther("/models")  # the list changes by itself when the ConfigMap is seen


async def show_one(request: web.Request) -> web.Response:
    return await _page(request, await _model(request))


async def change(request: web.Request) -> web.StreamResponse:
    """Try a version, or download it."""
    form = await fields_of(request)
    model = await _model(request)
    version = catalog.find_version(model, form.get("version", ""))
    if form.get("action") == "download":
        return await _download(request, model, version)
    given = form.get("input", "")
    return await _page(request, model, given, await _predict(request, model, version, given))


async def _model(request: web.Request) -> PublishedModel:
    info = request.match_info
    informer = await cluster_of(request).informer(MODELS)
    config_map = informer.get(Key(info["namespace"], info["name"]))
    rows = catalog.published_models([config_map] if config_map is not None else [])
    if not rows:
        raise NotFound(
            f"There is no model {info['name']} in namespace {info['namespace']}.",
            hint="Its files may have been deleted. The page Models lists those that are left.",
        )
    return rows[0]


async def _page(
    request: web.Request,
    model: PublishedModel,
    given: str = "",
    prediction: Prediction | None = None,
) -> web.Response:
    def view() -> ModelPage:
        return model_page(model, datetime.now(UTC), given, prediction)

    return await page(request, "model.html", view)


async def _predict(
    request: web.Request, model: PublishedModel, version: Version, given: str
) -> Prediction:
    """An error of the model is an answer too: it belongs beside the form, not on a page alone."""
    try:
        result = await model_runs.predict(cluster_of(request).client, model, version, given)
    except MusterError as error:
        return Prediction(version.version, error=str(error), hint=error.hint)
    return Prediction(version.version, json.dumps(result, indent=2, ensure_ascii=False))


async def _download(
    request: web.Request, model: PublishedModel, version: Version
) -> web.StreamResponse:
    name = f"{model.model.name}-{version.version}.tar"
    answer = web.StreamResponse(headers=attachment(name))
    answer.content_type = "application/x-tar"
    chunks = model_runs.download(cluster_of(request).client, model, version)
    async with aclosing(chunks):
        async for chunk in chunks:
            if not answer.prepared:  # an error before the first bytes is a page
                await answer.prepare(request)
            await answer.write(chunk)
    await answer.write_eof()
    return answer
