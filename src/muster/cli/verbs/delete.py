"""`arena delete JOB…`: every name is tried.

The exit code is 3 if some names do not exist and nothing else failed; 1 if errors differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubekit.request_errors import NotFound
from muster.cli.each_name import for_each_name
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import arena_info
from muster.cli.verb_groups import QuickCommand
from muster.client.jobs import job_operations, lookup

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Key


@click.command(name="delete", cls=QuickCommand)
@name_argument(many=True)
@type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Delete training jobs and their pods, services and records; pod/NAME deletes one pod.

    \b
    Example:
      arena delete hello world
    """

    def delete(client: BlockingClient, key: Key) -> None:
        parsed = lookup.parse_name(key.name, type_)
        noun, name = "pod" if parsed.must_be == "pod" else "training job", parsed.name
        try:
            job_operations.delete_job_or_pod(client, key, type_)
        except NotFound as error:
            message = f"the {noun} {name} does not exist in namespace {key.namespace}"
            raise NotFound(message, hint=error.hint) from None
        arena_info(f"The {noun} {name} has been deleted successfully")

    for_each_name(target, names, delete).raise_if_any(len(names), "names")
