"""The image of the pods that read models in volumes: Muster's own, as the installation has it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.errors import Forbidden, NotFound, UsageError
from kubekit.objects.kinds import CLUSTER_ROLE_BINDINGS, DEPLOYMENTS
from kubekit.objects.meta import Key

if TYPE_CHECKING:
    from kubekit.client.client import Client

_COMPONENTS = ("muster-scheduler", "muster-operator")
"""The names of Deployments, service accounts and ClusterRoleBindings of an installation."""


async def reader_image(client: Client, named: str = "", *, default: str = "") -> str:
    """The image that the user has named, else that of the installation, else the default."""
    image = named or await _installed_image(client) or default
    if not image:
        raise UsageError(
            "the image of Muster is not known, and only a pod with it can read the volume",
            hint="Name it, the one that `muster install` was given: `arena models read JOB --image "
            "IMAGE`, or `muster dashboard --reader-image IMAGE`.",
        )
    return image


async def _installed_image(client: Client) -> str:
    """The image of the installation; empty if there is none, or if the user may not look for it.

    Anybody can give a Deployment Muster's name and labels in a namespace of their own, and the
    reader runs with the user's rights. Only administrators write ClusterRoleBindings, so these
    say in which namespace Muster is.
    """
    for name in _COMPONENTS:
        with contextlib.suppress(Forbidden, NotFound):
            binding = await client.get(CLUSTER_ROLE_BINDINGS, Key("", name))
            for subject in binding.get("subjects") or ():
                if subject["kind"] == "ServiceAccount" and subject["name"] == name:
                    found = await client.get(DEPLOYMENTS, Key(subject["namespace"], name))
                    containers = found["spec"]["template"]["spec"]["containers"]
                    return str(containers[0].get("image", ""))
    return ""
