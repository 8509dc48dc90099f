"""`arena apply -f FILE`: make the cluster have these objects, by server-side apply.

The cluster merges, so that what others set (a controller's replicas, say) stays theirs. A field
that somebody else manages and that we would change is a conflict, told with its owner.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import msgspec

from muster.api.meta import Key, object_name
from muster.cli import options
from muster.cli.options import cluster_options
from muster.client.manifests import apply
from muster.client.manifests.apply import MANAGER, SendOptions, SendResult
from muster.errors import Conflict, NotFound
from muster.kube import request

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient

_OWNER = re.compile(r'conflicts? with "((?:[^"\\]|\\.)*)"')


@click.command(name="apply")
@options.manifest_options
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others manage.")
@click.option("--server-side", is_flag=True, hidden=True, expose_value=False)
@cluster_options
def command(
    target: Target,
    files: tuple[str, ...],
    recursive: bool,
    dry_run: str,
    output: str | None,
    force_conflicts: bool,
) -> None:
    """Create the objects of manifests, or change those that are there.

    \b
    Examples:
      arena apply -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena apply -f -
    """
    order = SendOptions("apply", files, recursive, dry_run, output or "")

    def one(client: BlockingClient, kind: Kind[Raw], item: Raw) -> SendResult:
        return _apply(client, kind, item, order, force=force_conflicts)

    apply.send_manifests(order, target, one)


def _apply(
    client: BlockingClient, kind: Kind[Raw], item: Raw, order: SendOptions, *, force: bool
) -> SendResult:
    before = _current(client, kind, item)
    try:
        response = client.send(order.asked(request.apply(kind, item, owner=MANAGER, force=force)))
    except Conflict as error:
        owners = _owners(error)
        if owners == {MANAGER} and not force:
            # `arena create` made it: the same user by the same program, so there is no dispute.
            return _apply(client, kind, item, order, force=True)
        raise _explained(error, item, owners) from None
    after: Raw = msgspec.json.decode(response.body, type=dict)
    if response.status == 201 or before is None:
        return SendResult("created", after)
    return SendResult("unchanged" if _said(before) == _said(after) else "configured", after)


def _current(client: BlockingClient, kind: Kind[Raw], item: Raw) -> Raw | None:
    metadata = item["metadata"]
    try:
        return client.get(kind, Key(metadata.get("namespace", ""), metadata["name"]))
    except NotFound:
        return None


def _said(item: Raw) -> Raw:
    """What an object says, without the server's book-keeping."""
    kept = {"managedFields", "resourceVersion"}
    metadata = {key: value for key, value in item["metadata"].items() if key not in kept}
    return {**item, "metadata": metadata}


def _owners(error: Conflict) -> set[str]:
    return {found[1] for _, message in error.causes if (found := _OWNER.search(message))}


def _explained(error: Conflict, item: Raw, owners: set[str]) -> Conflict:
    if not owners:
        return error
    fields = ", ".join(dict.fromkeys(field for field, _ in error.causes))
    return Conflict(
        f"{object_name(item)}: {', '.join(sorted(owners))} manages {fields}",
        status=error.status,
        reason=error.reason,
        causes=error.causes,
        hint="--force-conflicts takes these fields over; or leave them out of the manifest.",
    )
