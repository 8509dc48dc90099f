"""`arena create -f FILE`: create objects; one that is already there is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from muster.cli import options
from muster.cli.options import cluster_options
from muster.client.manifests import apply
from muster.client.manifests.apply import SendOptions, SendResult
from muster.errors import AlreadyExists
from muster.kube import request

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="create")
@options.manifest_options
@cluster_options
def command(
    target: Target, files: tuple[str, ...], recursive: bool, dry_run: str, output: str | None
) -> None:
    """Create the objects of manifests.

    \b
    Examples:
      arena create -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena create -f -
    """
    order = SendOptions("create", files, recursive, dry_run, output or "")

    def one(client: BlockingClient, kind: Kind[Raw], item: Raw) -> SendResult:
        try:
            response = client.send(order.asked(request.create(kind, item)))
        except AlreadyExists as error:
            error.hint = "`arena apply -f` changes what is there."
            raise
        return SendResult("created", msgspec.json.decode(response.body, type=dict))

    apply.send_manifests(order, target, one)
