"""Changes of a job (suspend, resume, delete), and the job as a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kubekit.errors import ApiError, BadRequest, Conflict, MusterError
from muster.client.jobs import job_operations, lookup
from muster.web.context import attachment, cluster_of
from muster.web.pages.job_path import JobPath
from muster.web.posted_form import fields_of
from muster.web.views.job_page import manifest

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient

_ACTIONS = ("suspend", "resume", "delete")


async def change(request: web.Request) -> web.Response:
    """POST: change the job that the reader saw."""
    cluster, path = cluster_of(request), JobPath.of(request)
    form = await fields_of(request)
    action, uid = form.get("action", ""), form.get("uid", "")
    if action not in _ACTIONS:
        raise BadRequest(f"There is no change {action!r}.", status=400)
    await cluster.job(path.kind, path.key)  # commands also take `pod/NAME`, a page does not

    def act(client: BlockingClient) -> None:
        job = lookup.get_job(client, path.key, path.kind.lower())
        if job.uid != uid:
            message = f"{path.key.name} was deleted and created again meanwhile."
            raise Conflict(message, status=409, hint="Load the page again.")
        if action == "delete":
            job_operations.delete_job_or_pod(client, path.key, path.kind.lower())
        else:
            job_operations.set_suspended(client, job, suspend=action == "suspend")

    try:
        await cluster.call(act)
    except ApiError:
        raise
    except MusterError as error:  # for instance, the job has ended meanwhile
        raise Conflict(str(error), hint=error.hint, status=409) from None
    target = "/jobs" if action == "delete" else path.url
    if not request.headers.get("HX-Request"):
        raise web.HTTPSeeOther(target)
    # The page of a job changes by itself.
    headers = {"HX-Redirect": target} if action == "delete" else {}
    return web.Response(status=204, headers=headers)


async def manifest_file(request: web.Request) -> web.Response:
    """GET …/yaml: the job as a file that can be submitted again."""
    from muster.client.manifests import yaml_writer  # loading yaml is slow

    path = JobPath.of(request)
    job = await cluster_of(request).job(path.kind, path.key)
    text = yaml_writer.dump(manifest(job.raw)).rstrip("\n") + "\n"
    headers = attachment(f"{path.key.name}.yaml")
    return web.Response(text=text, content_type="application/yaml", headers=headers)
