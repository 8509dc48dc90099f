"""`arena apply -f FILE` and `arena create -f FILE`: send objects, and report each of them.

`apply` creates objects or changes them, by server-side apply. For `create` an object that exists
already is an error.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import MusterError
from kubekit.objects.meta import object_name
from muster.cli import options
from muster.cli.each_name import Failures
from muster.cli.options import DRY_RUN_SUFFIX, cluster_options
from muster.cli.show.messages import note, note_cluster, warn_of_unknown_fields
from muster.cli.show.table import print_objects
from muster.client.manifests import apply as manifests
from muster.client.manifests.apply import SendResult
from muster.client.target import start_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client.manifests.apply import Send


_manifest_options = options.together(
    click.option(
        "--filename", "-f", "files", multiple=True, required=True, metavar="FILE|DIR|-",
        help="Manifests to send; - is standard input.  [repeatable]",
    ),
    click.option("--recursive", "-R", is_flag=True, help="Read folders within a folder too."),
    options.dry_run_option,
    options.objects_option,
)  # fmt: skip


@click.command(name="apply")
@_manifest_options
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others manage.")
@click.option("--server-side", is_flag=True, hidden=True, expose_value=False)
@cluster_options
def apply(target: options.Target, force_conflicts: bool, dry_run: str, **given: Any) -> None:
    """Create the objects of manifests, or change the objects that exist.

    \b
    Examples:
      arena apply -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena apply -f -
    """
    send = partial(manifests.apply_object, force=force_conflicts, dry_run=dry_run != "none")
    _send_manifests(target, "apply", send, dry_run=dry_run, **given)


@click.command(name="create")
@_manifest_options
@cluster_options
def create(target: options.Target, dry_run: str, **given: Any) -> None:
    """Create the objects of manifests.

    \b
    Examples:
      arena create -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena create -f -
    """
    send = partial(manifests.create_object, dry_run=dry_run != "none")
    _send_manifests(target, "create", send, dry_run=dry_run, **given)


def _send_manifests(
    target: options.Target, verb: str, send: Send, *, dry_run: str, output: str | None, **given: Any
) -> None:
    """Read, check and send all objects, and print the outcome of each."""
    objects = manifests.read_objects(
        stdin=sys.stdin, verb=verb, namespace=target.namespace, **given
    )
    items = [item for item, _ in objects]
    for item in items:
        warn_of_unknown_fields(item, object_name(item) if items[1:] else "")
    if dry_run == "client":
        outcome = "applied" if verb == "apply" else "created"
        _print_results([SendResult(outcome, item) for item in items], dry_run, output)
        return
    cluster = target.find() or start_cluster(target, note)
    checks_only = dry_run == "server"
    if not checks_only:
        note_cluster(cluster)
    namespace = target.namespace_in(cluster)
    results, failures = [], Failures()
    with cluster.connect() as client:
        for result in manifests.send_all(client, objects, namespace, send, dry_run=checks_only):
            if isinstance(result, MusterError):
                failures.errors.append(result)
            elif output:
                results.append(result)  # JSON and YAML are one document, printed at the end
            else:
                _print_results([result], dry_run, output)
    _print_results(results, dry_run, output)
    failures.raise_if_any(len(items), "objects")


def _print_results(results: Sequence[SendResult], dry_run: str, output: str | None) -> None:
    if output:
        print_objects([result.item for result in results], output)
        return
    for result in results:
        print(f"{object_name(result.item)} {result.outcome}{DRY_RUN_SUFFIX[dry_run]}")
