"""`arena create -f FILE`: create objects; one that is already there is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from muster.cli import send
from muster.cli.cluster import Where, cluster_options
from muster.cli.send import Order, Sent
from muster.errors import AlreadyExists
from muster.kube import request

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.kube.blocking import BlockingClient


@click.command(name="create")
@send.options
@cluster_options
def command(
    where: Where, files: tuple[str, ...], recursive: bool, dry_run: str, output: str | None
) -> None:
    """Create the objects of manifests.

    \b
    Examples:
      arena create -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena create -f -
    """
    order = Order("create", files, recursive, dry_run, output or "")

    def one(client: BlockingClient, kind: Kind[Raw], item: Raw) -> Sent:
        try:
            response = client.send(order.asked(request.create(kind, item)))
        except AlreadyExists as error:
            error.hint = "`arena apply -f` changes what is there."
            raise
        return Sent("created", msgspec.json.decode(response.body, type=dict))

    send.everything(order, where, one)
