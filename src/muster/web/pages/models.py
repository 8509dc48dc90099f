"""`/models` and `/models/NAMESPACE/NAME`: models that jobs exported; try one, download one.

The dashboard loads no model and reads no file: both run in a pod, through the API, with the rights
of the user, by the functions of `arena models`. Both are changes, since they create a pod.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from muster.api.meta import Key
from muster.client.models import catalog, model_runs
from muster.errors import MusterError, NotFound
from muster.web.cluster.sources import MODELS
from muster.web.context import attachment, cluster_of, page
from muster.web.views.models import ModelPage, ModelsView, Prediction, model_page, models_view

if TYPE_CHECKING:
    from muster.client.models.catalog import PublishedModel
    from muster.jobs.exported_models import Version


async def show(request: web.Request) -> web.Response:
    informer, now = await cluster_of(request).informer(MODELS), datetime.now(UTC)
    config_maps = tuple(informer.all())

    def view() -> ModelsView:
        return models_view(catalog.published_models(config_maps), now)

    return await page(request, "models.html", view, shared=True)


async def show_one(request: web.Request) -> web.Response:
    return await _page(request, await _model(request))


async def change(request: web.Request) -> web.StreamResponse:
    """Try a version, or download it."""
    form = await request.post()
    model = await _model(request)
    version = catalog.find_version(model, str(form.get("version", "")))
    if form.get("action") == "download":
        return await _download(request, model, version)
    given = str(form.get("input", ""))
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
