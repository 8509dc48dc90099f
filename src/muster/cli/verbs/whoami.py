"""`arena whoami`: who the cluster takes us for, as arena's one line of JSON."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import click

from muster.api.kinds import Kind
from muster.client.target import Target, cluster_options

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.kube.blocking_client import BlockingClient

SELF: Kind[Raw] = Kind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", dict, namespaced=False
)
ACCESS: Kind[Raw] = Kind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    dict,
    namespaced=False,
)


@click.command(name="whoami")
@cluster_options
def command(where: Target) -> None:
    """Print who the cluster takes you for, and whether you may do everything there."""
    with where.cluster().connect() as client:
        name = user(client)
        admin = _may_everything(client)
    identity = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    print(json.dumps({"Name": name, "Id": identity, "IsAdminUser": admin}, separators=(",", ":")))


def user(client: BlockingClient) -> str:
    """The name the server knows us by."""
    answer = client.create(SELF, {})
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _may_everything(client: BlockingClient) -> bool:
    everything = {"verb": "*", "group": "*", "resource": "*"}
    answer = client.create(ACCESS, {"spec": {"resourceAttributes": everything}})
    return bool((answer.get("status") or {}).get("allowed"))
