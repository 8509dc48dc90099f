"""Writes and deletes ControllerRevisions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.errors import AlreadyExists, NotFound
from kubekit.objects.meta import preconditions
from localkube.controllers.revisions import history
from localkube.controllers.workloads import CONTROLLER_REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localkube.controllers.pod_control import PodControl
    from localkube.controllers.workloads import ControllerRevision, DaemonSet, StatefulSet


async def current_revision(
    pod_control: PodControl,
    owner: StatefulSet | DaemonSet,
    known: Sequence[ControllerRevision],
    hash_label: str,
) -> ControllerRevision | None:
    """The revision of the owner's template, with the highest number.

    None if the name of a new revision is taken by another template: the owner's status then has a
    higher `collisionCount`, which gives another name at the next visit.
    """
    client, found = pod_control.client, history.find(owner.spec.template, known)
    number = history.next_number(known)
    if found is None:
        body = history.new_revision(pod_control.kind, owner, number, hash_label)
        try:
            return await client.create(CONTROLLER_REVISIONS, body)
        except AlreadyExists:
            name = owner.metadata.key._replace(name=body["metadata"]["name"])
            live = await client.get(CONTROLLER_REVISIONS, name)
            if history.template_of(live) == owner.spec.template:
                return live  # ours, and the informer does not show it yet
            counted = {**owner.status, "collisionCount": history.collisions(owner) + 1}
            await pod_control.write_status(owner.metadata, owner.status, counted)
            return None
    if found.revision == number - 1:
        return found
    change = {"metadata": preconditions(found.metadata), "revision": number}
    return await client.patch(CONTROLLER_REVISIONS, found.metadata.key, change)


async def delete_revisions(pod_control: PodControl, old: Iterable[ControllerRevision]) -> None:
    for revision in old:
        with contextlib.suppress(NotFound):
            meta = revision.metadata
            await pod_control.client.delete(CONTROLLER_REVISIONS, meta.key, uid=meta.uid)
