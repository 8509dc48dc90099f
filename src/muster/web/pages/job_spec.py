"""`/jobs/NAMESPACE/KIND/NAME/spec`: the cluster spec that a replica was given."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kubekit.errors import Forbidden, NotFound
from kubekit.objects.kinds import CONFIG_MAPS, PODS
from kubekit.objects.meta import Key
from muster.jobs.view.instance import order, pods_of_job
from muster.web.context import cluster_of, page
from muster.web.pages.job_path import JobPath
from muster.web.views.job.cluster_spec import cluster_spec, config_map_of

if TYPE_CHECKING:
    from aiohttp import web

    from kubekit.objects.meta import Raw
    from muster.web.cluster.live_cluster import LiveCluster


async def show(request: web.Request) -> web.Response:
    cluster, path = cluster_of(request), JobPath.of(request)
    job = await cluster.job(path.kind, path.key)
    pods = pods_of_job(path.kind, path.key, job.raw["metadata"]["uid"], job.pods)
    names = [pod.metadata.name for pod in sorted(pods, key=order)]
    wanted = request.query.get("replica", "")
    chosen = wanted if wanted in names else next(iter(names), "")
    pod = await _pod(cluster, Key(path.key.namespace, chosen)) if chosen else None
    files = await _files(cluster, path.key, pod) if pod else {}
    return await page(request, "spec.html", lambda: cluster_spec(path.url, names, pod, files))


async def _pod(cluster: LiveCluster, key: Key) -> Raw | None:
    # Live pods have only the fields that Muster reads, and no variables.
    with suppress(NotFound):
        return await cluster.client.get(PODS.read_as(dict), key)
    return None


async def _files(cluster: LiveCluster, job: Key, pod: Raw) -> dict[str, str]:
    if name := config_map_of(pod, job.name):
        with suppress(NotFound, Forbidden):
            return (await cluster.client.get(CONFIG_MAPS, Key(job.namespace, name))).data
    return {}
