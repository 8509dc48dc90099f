"""Limits of a job that its cluster does not enforce. Only a local cluster may have such limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import Forbidden
from kubekit.objects import limits
from kubekit.objects.kinds import NODES
from muster.jobs.view.summary import limited_resources

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw


def unenforced_limits(client: BlockingClient, job: Raw, *, local: bool) -> dict[str, str]:
    """The resources that the job limits and the cluster does not, and why not.

    Costs a request only for a job with limits on the local cluster.
    """
    resources = limited_resources(job) & limits.ANNOTATIONS.keys() if local else set()
    if not resources:
        return {}
    try:
        nodes = client.list(NODES).items
    except Forbidden:
        return {}  # a user without rights on nodes still submits and sees the job
    published = limits.enforcement(node.metadata.annotations for node in nodes)
    return limits.unenforced(published, resources)
