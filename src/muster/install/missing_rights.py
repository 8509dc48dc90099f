"""What the user lacks to apply a plan, asked of the cluster before anything is applied.

Without this check every object would be refused with its own sentence.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kubekit.request_errors import Forbidden, NotFound
from kubekit.rights import MissingRight, Right, compact
from muster.client.manifests import apply
from muster.client.manifests.served_kinds import ServedKinds
from muster.client.target import may, may_do_everything

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw

VERBS = ("create", "patch")
"""What a server-side apply needs."""
SHOWN = 3
HINT = (
    "An administrator of the cluster must run it: with --dry-run it prints the objects for them. "
    "`--debug` lists what is missing."
)


class NotAllowed(Forbidden):
    """The user may not install; `missing` has a sentence for each rule."""

    def __init__(self, message: str, missing: Sequence[str]) -> None:
        super().__init__(message, status=403, hint=HINT)
        self.missing = missing


def check_rights(client: BlockingClient, objects: Sequence[Raw]) -> None:
    """Raise NotAllowed, with one sentence, if the user may not apply all of these objects."""
    if may_do_everything(client):
        return
    if missing := _missing(client, objects):
        raise _not_allowed(missing)
    roles = [apply.ReadObject(row, "") for row in objects if row["kind"] in ("ClusterRole", "Role")]
    send = partial(apply.apply_object, force=True, dry_run=True)
    refused = [
        result
        for result in apply.send_all(client, roles, "", send, dry_run=True)
        if isinstance(result, Forbidden)
    ]
    if refused:
        raise _may_not_grant(refused)


def _missing(client: BlockingClient, objects: Iterable[Raw]) -> dict[str, list[Right]]:
    """The missing rights by namespace; without one, on objects of the whole cluster."""
    served, missing = ServedKinds(client), dict[str, list[Right]]()
    needed = dict.fromkeys(
        (row["apiVersion"], row["kind"], row["metadata"].get("namespace", "")) for row in objects
    )
    for api_version, name, namespace in needed:
        try:
            kind = served.find(api_version, name)
        except NotFound:
            continue  # applying it says so
        for verb in VERBS:
            right = Right(verb, kind.group, kind.plural)
            if not may(client, right, namespace):
                missing.setdefault(namespace, []).append(right)
    return missing


def _not_allowed(missing: dict[str, list[Right]]) -> NotAllowed:
    resources = list(dict.fromkeys(right.resource for rows in missing.values() for right in rows))
    shown = ", ".join(resources[:SHOWN])
    rest = f" and {len(resources) - SHOWN} other kinds" if len(resources) > SHOWN else ""
    sentences = [
        f"{MissingRight('you', rule)}" + (f" in the namespace {namespace}" if namespace else "")
        for namespace, rights in missing.items()
        for rule in compact(rights)
    ]
    return NotAllowed(
        f"you lack the rights to install Muster: to create and change {shown}{rest}", sentences
    )


def _may_not_grant(refused: Sequence[Forbidden]) -> NotAllowed:
    """The error of a user who lacks rights that the roles have: nobody can grant more than that."""
    return NotAllowed(
        f"you lack the rights that you would grant to Muster, in {len(refused)} roles",
        [str(error) for error in refused],
    )
